"""Bound on what a compressed file may unpack to. Text stays far below it; what was made to fill a disk does not."""

from __future__ import annotations

import os
from pathlib import Path

from corpora.errors import DataError

TIMES = 100  # the compressed size; text unpacks to 3 to 10 times its size
ALWAYS = 100_000_000  # bytes that any file may unpack to
VARIABLE = "LOCALATTN_MAX_EXPANSION"  # other TIMES; the option --max-expansion of the preparations sets it


class Expansion:
    """Counts what a compressed file has unpacked to; what its headers say of sizes is not believed.

    most: bytes that it may unpack to. Raises DataError for a value of VARIABLE that is no number from 1.
    """

    def __init__(self, path: Path) -> None:
        given = os.environ.get(VARIABLE) or str(TIMES)
        if not given.isdecimal() or not int(given):
            raise DataError(f"{VARIABLE}={given}: a number from 1 is needed")
        self.path, self.times, self.count = path, int(given), 0
        self.most = max(ALWAYS, self.times * path.stat().st_size)

    def add(self, count: int) -> None:
        """Count bytes; raises DataError beyond the bound."""
        self.count += count
        if self.count > self.most:
            raise DataError(
                f"{self.path}: unpacks to more than {self.times} times its size, which no text does; if you trust it, "
                f"give a larger --max-expansion (or {VARIABLE}) than {self.times}"
            )
