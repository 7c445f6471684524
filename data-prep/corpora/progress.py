"""Progress of long loops on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from fairseq_localattn.progress import ProgressBar, progress_bar


def progress(
    items: Iterable[Any] | None, title: str, unit: str = "lines", total: int | None = None, **options: Any
) -> ProgressBar:
    """Return a bar over `items`, whose last state stays in a log; without items, one that the caller updates."""
    log = not sys.stdout.isatty()
    return progress_bar(total, unit, items, sys.stdout, desc=title, leave=log, **options)
