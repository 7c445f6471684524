"""The exception for mistakes that a user can correct: bad options, bad data, unsuitable files."""

from __future__ import annotations

import re

# How torch tells an error of a process that loads data: with its traceback, which ends in the error itself.
_OF_A_WORKER = re.compile(r"Caught \w+ in .*^[\w.]+: (?P<message>[^\n]+)\s*", re.DOTALL | re.MULTILINE)


class UsageError(SystemExit, ValueError):
    """A mistake in the user's input, described in one line.

    As a ``SystemExit``, an uncaught error prints its line on stderr and ends the command with exit status 1, without a
    traceback. As a ``ValueError``, it can be caught by code that calls the library.
    """

    def __init__(self, message: str = "") -> None:
        told = _OF_A_WORKER.fullmatch(message)
        super().__init__(told["message"] if told else message)

    def __str__(self) -> str:
        return str(self.code)


class SentenceError(UsageError):
    """A mistake in one of several sentences: ``what`` is wrong, and its ``index`` among them, from 0."""

    def __init__(self, what: str = "", index: int | None = None) -> None:
        super().__init__(what if index is None else f"sentence {index + 1}: {what}")
        self.what, self.index = what, index or 0
