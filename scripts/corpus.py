"""Prepares the data of a recipe with its script in data-prep/, once."""

from __future__ import annotations

import time
from pathlib import Path

from jobs import Job
from progress import Progress
from recipe import ROOT, Recipe, RecipeError
from runs import Prepared

EXPECTED_SECONDS = 45.0


def data_of(recipe: Recipe, folder: Path) -> Prepared:
    """The prepared data of a recipe in `folder` (they need not be there yet)."""
    spec = recipe.get("data", {})
    for key in ("name", "prepare", "source", "target"):
        if key not in spec:
            raise RecipeError(f"{recipe.path}: data needs the key {key!r}")
    return Prepared(
        folder, spec["source"], spec["target"], spec.get("bpe", "subword_nmt"), bool(spec.get("lowercase", False))
    )


def local_folder(recipe: Recipe, given: str | None) -> Path | None:
    """The local copy of the corpus: the folder given, else the recipe's where it exists. Raises RecipeError."""
    spec = recipe.get("data", {})
    if given is not None and "local" not in spec:
        raise RecipeError(f"--local {given}: {spec['name']} takes no folder")
    if given is not None:
        if not Path(given).is_dir():
            raise RecipeError(
                f"--local {given}: no such folder; give the folder that holds {spec['name']} (train.* and so on)"
            )
        return Path(given).resolve()
    if "local" not in spec:
        return None
    folder = ROOT / spec["local"]
    return folder.resolve() if folder.is_dir() else None


def prepare_argv(recipe: Recipe, data: Prepared, local: Path | None) -> list[str]:
    """The command that prepares the data; run again it continues, or does nothing."""
    spec = recipe.get("data")
    script = ROOT / spec["prepare"]
    if not script.exists():
        raise RecipeError(f"{recipe.path}: {spec['prepare']}: no such script")
    return [
        "bash",
        str(script),
        str(data.folder),
        *map(str, spec.get("options", [])),
        *(["--local", str(local)] if local else []),
    ]


def prepare(
    recipe: Recipe, data: Prepared, local: Path | None, progress: Progress, *, after: float, threads: int
) -> None:
    """Prepares the data. `after` are the seconds expected for what follows. Raises JobFailed."""
    argv = prepare_argv(recipe, data, local)
    expected = 1.0 if data.bin.is_dir() else EXPECTED_SECONDS
    # The log lies beside the folder: the script owns the folder, with its lock.
    job = Job(argv, data.folder.parent / f"{data.folder.name}.log", threads=threads)
    while not job.finished():
        left = max(3.0, expected - (time.time() - job.started))
        progress.update(f"preparing {recipe.get('data')['name']}", left + after)
        time.sleep(0.3)
    progress.close()
