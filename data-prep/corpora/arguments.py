"""Arguments that several commands of this package have."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """Return a whole number from 1; raises ArgumentTypeError for other texts."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text!r}")
    return int(text)
