"""The exception for mistakes that a user can correct: bad options, bad data, unsuitable files."""

from __future__ import annotations

import re

# How torch tells an error of a process that loads data: with its traceback, which ends in the error itself.
_OF_A_WORKER = re.compile(r"Caught \w+ in .*^[\w.]+: (?P<message>[^\n]+)\s*", re.DOTALL | re.MULTILINE)


COMMAND_ERROR = "fairseq_localattn: "  # begin of the line by which a command ends, also in the logs of the runners


class UsageError(SystemExit, ValueError):
    """A mistake in the user's input, described in one line.

    As a ``SystemExit``, an uncaught error prints its line on stderr and ends the command with exit status 1, without a
    traceback; that line begins with COMMAND_ERROR. As a ``ValueError``, it can be caught by code that calls the
    library.
    """

    def __init__(self, message: str = "") -> None:
        told = _OF_A_WORKER.fullmatch(message)
        super().__init__(told["message"] if told else message)

    @property
    def code(self) -> str:  # type: ignore[override]
        """The line that Python prints where the error ends a command."""
        line = str(self)
        return line if line.startswith(COMMAND_ERROR) else COMMAND_ERROR + line

    def __str__(self) -> str:
        return str(self.args[0])


class SentenceError(UsageError):
    """A mistake in one of several sentences: ``what`` is wrong, and its ``index`` among them, from 0."""

    def __init__(self, what: str = "", index: int | None = None) -> None:
        super().__init__(what if index is None else f"sentence {index + 1}: {what}")
        self.what, self.index = what, index or 0
