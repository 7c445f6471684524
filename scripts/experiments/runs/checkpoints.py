"""Checkpoints of a training by fairseq, and what they and its logs say."""

from __future__ import annotations

import errno
import re
import shlex
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fairseq_localattn
from experiments.system.logs import train_log
from fairseq_localattn.errors import UsageError
from fairseq_localattn.files import remove_parts, replaced

LAST = Path("checkpoints") / "checkpoint_last.pt"
BEST = Path("checkpoints") / "checkpoint_best.pt"
# fairseq's names. Groups: epoch, updates; epoch; metric, value (with one more digit where two are equal).
BY_UPDATES = re.compile(r"checkpoint_(\d+)_(\d+)\.pt")
BY_EPOCHS = re.compile(r"checkpoint(\d+)\.pt")
BEST_BY = re.compile(r"checkpoint\.best_(.+)_(\d+\.?\d*)\.pt")
TIED = ("embed_tokens.weight", "output_projection.weight")
BUFFERS = (".version", "._float_tensor")  # of fairseq's models; this package has none


def mend_last_checkpoint(folder: Path) -> None:
    """Replace a checkpoint_last.pt that is missing or damaged by the newest whole checkpoint, and remove parts.

    Trainings replace it as a whole, and a kill leaves parts beside it; a damaged one comes from elsewhere, such as a
    copy that was cut off, or a training without the plugin.
    """
    remove_parts(folder)
    last = folder / LAST.name
    if last.exists() and whole(last):
        return
    last.unlink(missing_ok=True)
    if newest := next(filter(whole, _by_age(folder)), None):
        with replaced(last) as new:
            shutil.copyfile(newest, new)


def _by_age(folder: Path) -> list[Path]:
    """Return the checkpoints by updates, the newest first."""
    return sorted(folder.glob("checkpoint_*_*.pt"), key=lambda path: path.stat().st_mtime, reverse=True)


def remove_averaged(folder: Path) -> None:
    """Remove the checkpoints that an average may have been made of; checkpoint_last.pt and checkpoint_best.pt stay."""
    for pattern in ("checkpoint_*_*.pt", "checkpoint.best_*.pt"):
        for path in folder.glob(pattern):
            path.unlink()


def whole(path: Path) -> bool:
    """Return whether a checkpoint was written to its end. Raises OSError where it cannot be read for now."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, RuntimeError):  # RuntimeError: encrypted, or packed in an unknown way
        return False
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINVAL):  # EINVAL: a damaged archive leads to places outside of it
            return False
        raise


def _contents(folder: Path) -> dict[str, Any]:
    """Return a training's last checkpoint as data, mapped into memory; empty without one that can be read."""
    if not (folder / LAST).exists():
        return {}
    import torch

    fairseq_localattn.register()  # names the classes that a checkpoint may hold
    try:
        return dict(torch.load(folder / LAST, map_location="cpu", weights_only=True, mmap=True))
    except Exception:  # damaged: the training that continues from it will say so
        return {}


def checkpoint_updates(folder: Path) -> int:
    """Return the updates of a training's last checkpoint; 0 without one that can be read."""
    history = _contents(folder).get("optimizer_history")
    return int(history[-1]["num_updates"]) if history else 0


def parameters_of(model: Mapping[str, Any]) -> int | None:
    """Return the parameters of a checkpoint's tensors as fairseq counts them: tied embeddings once; None without any.

    A checkpoint from a GPU has a copy of a tied matrix under each of its names.
    """
    import torch

    total = 0
    tied: list[torch.Tensor] = []
    for name, tensor in model.items():
        if name.endswith(BUFFERS):
            continue
        if name.endswith(TIED):
            if any(tensor.shape == other.shape and torch.equal(tensor, other) for other in tied):
                continue
            tied.append(tensor)
        total += tensor.numel()
    return total or None


def attention_of(path: Path) -> str | None:
    """Return the texts of a checkpoint's sites as the flags of a hybrid model; None where all sites are plain.

    None also of a model that is none of this package.
    """
    from fairseq_localattn.analysis.describe import checkpoint_arguments, texts_of

    try:
        texts = texts_of(*checkpoint_arguments(str(path)))
    except UsageError:
        return None
    flags = [word for site, text in texts.items() if text != "all: san" for word in (f"--localattn-{site}", text)]
    return shlex.join(flags) or None


def begun(folder: Path) -> int:
    """Return the updates of the checkpoint from which a training would continue; 0 without one.

    It is the last one, or the newest checkpoint_EPOCH_UPDATES.pt, which may replace it.
    """
    if updates := checkpoint_updates(folder):
        return updates
    numbers = [BY_UPDATES.fullmatch(path.name) for path in _by_age((folder / LAST).parent)[:1]]
    return int(numbers[0][2]) if numbers and numbers[0] else 0


def training_facts(folder: Path, alone: bool = True) -> dict[str, Any]:
    """Return what the checkpoint and fairseq's JSON log say of a finished training.

    - ``updates``, ``parameters``.
    - ``attention``: the texts of the sites whose attention is not plain, as the flags of a hybrid model; None where
      all are plain.
    - ``words_per_second``: target tokens (subwords and ends of sentences) a second, fairseq's wps averaged over the
      logging intervals by time; ``steps_per_second``: updates a second, likewise, and None of a training that was not
      ``alone`` on its cores or GPUs.
    - ``train_minutes``: all logging intervals, with validation and saving but without the start. fairseq's own wall
      time begins again when a training is resumed.

    The speeds and the minutes are None where the training was shorter than one interval.
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
    return {
        "updates": checkpoint_updates(folder),
        "parameters": parameters_of(_contents(folder).get("model", {})),
        "attention": attention_of(folder / LAST),
        "words_per_second": round(words / seconds) if seconds else None,
        "steps_per_second": round(timed / seconds, 3) if seconds and alone else None,
        "train_minutes": round(seconds / 60, 2) if seconds else None,
    }
