"""What fairseq has logged as JSON in the folder of a training."""

from __future__ import annotations

import json
from pathlib import Path


def train_log(folder: Path, start: int = 0) -> dict[int, dict[str, str]]:
    """Return the entries of fairseq's JSON log from byte ``start``, by updates; of repeated updates the last entry."""
    found: dict[int, dict[str, str]] = {}
    try:
        data = (folder / "train.json.log").read_bytes()[start:]
    except FileNotFoundError:
        return found
    for line in data.decode("utf-8", errors="replace").splitlines():
        if not line.startswith("{") or '"wps"' not in line:
            continue
        try:
            entry = json.loads(line)
            found[int(entry["num_updates"])] = entry
        except (json.JSONDecodeError, KeyError, ValueError):
            continue
    return dict(sorted(found.items()))


def last_validation(folder: Path, name: str) -> str | None:
    """Return what the last validation logged as ``name``, such as tag_accuracy; None where none did."""
    try:
        lines = (folder / "train.json.log").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(entry, dict) and f"valid_{name}" in entry:
            return str(entry[f"valid_{name}"])
    return None
