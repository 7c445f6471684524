"""Arguments that several commands of this package have."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_file_arguments(parser: argparse.ArgumentParser) -> None:
    """Add SOURCE, TARGET and --workers, for a command that changes the lines of a file."""
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--workers", type=positive, default=1, help="processes (default: %(default)s)")


def positive(text: str) -> int:
    """Return a whole number from 1; raises ArgumentTypeError for other texts."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text!r}")
    return int(text)
