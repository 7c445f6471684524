"""Errors in data, and how the commands of this package report them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable


class DataError(Exception):
    """A data file that cannot be used; the message names the file, and the line where there is one."""


class UsageError(Exception):
    """A request that a preparation cannot fulfil; the message says what to do instead."""


def as_status(work: Callable[[], None]) -> Callable[[], int]:
    """Turn a command's work into its `main`, which returns 0, or prints one line to stderr and returns 1.

    Caught are DataError and OSError.
    """

    @functools.wraps(work)
    def main() -> int:
        try:
            work()
        except DataError as error:
            print(f"data error: {error}", file=sys.stderr)
            return 1
        except OSError as error:
            alone = isinstance(error, (FileNotFoundError, IsADirectoryError, PermissionError))  # of reading, or writing
            what = "" if alone else "cannot be written: "
            print(f"data error: {error.filename or 'a file'}: {what}{error.strerror}", file=sys.stderr)
            return 1
        return 0

    return main
