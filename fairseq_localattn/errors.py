"""The exception for mistakes that a user can correct: bad options, bad data, unsuitable files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

# torch's message for an error in a data-loading process: its traceback, which ends in the error itself.
_OF_A_WORKER = re.compile(r"Caught \w+ in .*^[\w.]+: (?P<message>[^\n]+)\s*", re.DOTALL | re.MULTILINE)


COMMAND_ERROR = "fairseq_localattn: "  # begins the last line of a failed command; the runners look for it in logs


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


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the nearest of ``names`` to a misspelt one, or None if none is near."""
    return next(iter(get_close_matches(name, list(names), n=1, cutoff=cutoff)), None)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return '; did you mean X?' for the nearest of ``names``, or "" if none is near."""
    meant = nearest(name, names)
    return f"; did you mean {meant}?" if meant else ""
