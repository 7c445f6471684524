"""What fairseq has logged as JSON in the folder of a training."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any


def train_log(folder: Path, start: int = 0) -> dict[int, dict[str, str]]:
    """Return the entries of fairseq's JSON log from byte ``start``, by updates; of repeated updates the last entry."""
    found = {}
    for entry in _entries(folder, start):
        if "wps" in entry:
            with contextlib.suppress(KeyError, ValueError):
                found[int(entry["num_updates"])] = entry
    return dict(sorted(found.items()))


def last_validation(folder: Path, name: str) -> str | None:
    """Return what the last validation logged as ``name``, such as tag_accuracy; None where none did."""
    values = [entry[f"valid_{name}"] for entry in _entries(folder) if f"valid_{name}" in entry]
    return str(values[-1]) if values else None


def _entries(folder: Path, start: int = 0) -> list[dict[str, Any]]:
    """Return the objects of the log; other lines, and one that is cut off, are left out."""
    try:
        data = (folder / "train.json.log").read_bytes()[start:]
    except FileNotFoundError:
        return []
    found = []
    for line in data.decode("utf-8", errors="replace").splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            found.append(json.loads(line))
    return [entry for entry in found if isinstance(entry, dict)]
