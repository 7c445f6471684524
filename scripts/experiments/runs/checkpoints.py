"""What a training of fairseq leaves behind: its checkpoints and its logs."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

LAST = Path("checkpoints") / "checkpoint_last.pt"
BEST = Path("checkpoints") / "checkpoint_best.pt"


def mend_last_checkpoint(folder: Path) -> None:
    """Puts the newest whole checkpoint in place of half a checkpoint_last.pt.

    fairseq writes that one by copying another, so that a kill can leave half a file.
    """
    last = folder / "checkpoint_last.pt"
    if last.exists() and not whole(last):
        last.unlink()
    if last.exists():
        return
    others = sorted(folder.glob("checkpoint_*_*.pt"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others:
        if whole(path):
            new = folder / "checkpoint_last.pt.new"
            shutil.copyfile(path, new)
            os.replace(new, last)
            return


def remove_averaged(folder: Path) -> None:
    """Remove the checkpoints of single updates, of which an average has been made; the last and the best one stay."""
    for path in folder.glob("checkpoint_*_*.pt"):
        path.unlink()
    for path in folder.glob("checkpoint.best_*.pt"):
        path.unlink()


def whole(path: Path) -> bool:
    """Whether a checkpoint was written to its end."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError):
        return False


def checkpoint_updates(folder: Path) -> int:
    """Updates of the last checkpoint of the training under `folder`; 0 without one that can be read."""
    if not (folder / LAST).exists():
        return 0
    import torch

    import fairseq_localattn  # noqa: F401  names the classes that a checkpoint may hold

    try:
        state = torch.load(folder / LAST, map_location="cpu", weights_only=True, mmap=True)
        return int(state["optimizer_history"][-1]["num_updates"])
    except Exception:  # damaged in whatever way: the training that is to continue from it will say so
        return 0


def updates_of_names(folder: Path) -> int:
    """Updates of the newest checkpoint_EPOCH_UPDATES.pt, which takes the place of half a last one; 0 without one."""
    others = sorted((folder / LAST).parent.glob("checkpoint_*_*.pt"), key=lambda path: path.stat().st_mtime)
    numbers = [re.fullmatch(r"checkpoint_\d+_(\d+)", path.stem) for path in others]
    return int(numbers[-1][1]) if numbers and numbers[-1] else 0


def train_log(folder: Path, start: int = 0) -> dict[int, dict[str, str]]:
    """fairseq's JSON log from byte `start`, by number of updates; of what was done twice the last counts."""
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
    """What the last validation logged as `name`, such as tag_accuracy; None where no validation did."""
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


def training_facts(folder: Path) -> dict[str, Any]:
    """What checkpoint and logs say of a finished training.

    words_per_second: target tokens (sub-words and end of sentence) by seconds, fairseq's wps of each logging interval
    averaged over the whole run by time; steps_per_second: updates, likewise. train_minutes: these intervals together
    (validation and saving included, start not), so that an interrupted run counts as a whole one: fairseq's own wall
    time begins again at a resume. All three are None where the training was shorter than one interval.
    """
    words = seconds = 0.0
    timed = before = 0
    for at, entry in train_log(folder).items():
        speed = float(entry["wps"])
        if speed > 0:
            amount = float(entry["wpb"]) * (at - before)
            words += amount
            seconds += amount / speed
            timed += at - before
        before = at
    parameters = None
    for line in (folder / "train.log").read_text(encoding="utf-8", errors="replace").splitlines():
        if "num. shared model params:" in line:
            parameters = int(line.split("num. shared model params:")[1].split("(")[0].replace(",", ""))
    return {
        "updates": checkpoint_updates(folder),
        "parameters": parameters,
        "words_per_second": round(words / seconds) if seconds else None,
        "steps_per_second": round(timed / seconds, 3) if seconds else None,
        "train_minutes": round(seconds / 60, 2) if seconds else None,
    }
