"""The exception for mistakes that a user can correct: bad options, bad data, unsuitable files."""

from __future__ import annotations


class UsageError(SystemExit, ValueError):
    """A mistake in the user's input, described in one line.

    As a ``SystemExit``, an uncaught error prints its line on stderr and ends the command with exit status 1, without a
    traceback. As a ``ValueError``, it can be caught by code that calls the library.
    """

    def __str__(self) -> str:
        return str(self.code)
