"""Progress bars for long work."""

from __future__ import annotations

import sys

from tqdm import tqdm


def progress_bar(total: int, unit: str) -> tqdm:
    """Return a bar on stderr that is cleared at the end; it is updated often on a terminal, else every 15 seconds."""
    seconds = 0.5 if sys.stderr.isatty() else 15.0
    intervals = {"mininterval": seconds, "maxinterval": seconds, "delay": seconds}
    return tqdm(total=total, unit=f" {unit}", unit_scale=True, leave=False, miniters=0, **intervals)
