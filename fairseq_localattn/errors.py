"""The one exception for what a user can mend: bad options, bad data, foreign files."""

from __future__ import annotations


class UsageError(SystemExit, ValueError):
    """A mistake in what the user asked for, told in one line.

    Uncaught it ends the command with that line on stderr and exit status 1, without a traceback, as ``SystemExit``
    does; code that calls the library catches it as the ``ValueError`` that it is.
    """

    def __str__(self) -> str:
        return str(self.code)
