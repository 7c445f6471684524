"""Prepares the data of a recipe with its script in data-prep/, once."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

from experiments.measure.measures import measure_of
from experiments.recipes.recipe import ROOT, Recipe, RecipeError
from experiments.runs.processes import Job, JobFailed
from experiments.runs.progress import Progress
from experiments.runs.run import Prepared

EXPECTED_SECONDS = 45.0


def data_of(recipe: Recipe, out: Path) -> Prepared:
    """The prepared data of a recipe under `out` (they need not be there yet). Raises RecipeError.

    The folder's name changes with the preparation: other options or scripts prepare anew, beside the old data.
    """
    spec = recipe.get("data", {})
    for key in ("name", "prepare", *measure_of(recipe).data_keys):
        if key not in spec:
            raise RecipeError(f"{recipe.path}: data needs the key {key!r}")
    if not (ROOT / spec["prepare"]).exists():
        raise RecipeError(f"{recipe.path}: {spec['prepare']}: no such script")
    return _prepared(spec, out / f"data.{_preparation(spec)}")


def row_data(recipe: Recipe, out: Path) -> Prepared:
    """The same of a row of a paper's table, under `out`, for all tables.

    Here the folder's name changes with the options alone: a corpus of millions of lines is not prepared again because a
    comment of a script was mended. The preparation refuses other options for a folder, and the runs' settings know the
    data by what is in them. Trees are added to data that are there, so their options do not count.
    """
    spec = recipe.get("data", {})
    for key in ("name", "prepare", *measure_of(recipe).data_keys):
        if key not in spec:
            raise RecipeError(f"{recipe.path}: data needs the key {key!r}")
    options = [str(option) for option in spec.get("options", [])]
    for option in ("--trees", "--tree-files"):
        if option in options:
            at = options.index(option)
            del options[at : at + 2]
    digest = hashlib.sha256(repr(options).encode()).hexdigest()[:8]
    return _prepared(spec, out / "data" / f"{spec['name']}.{digest}")


def _prepared(spec: dict[str, Any], folder: Path) -> Prepared:
    return Prepared(
        folder,
        spec.get("source", ""),
        spec.get("target", ""),
        spec.get("bpe", "subword_nmt"),
        bool(spec.get("lowercase", False)),
    )


def _preparation(spec: dict[str, Any]) -> str:
    """Eight hex digits that change with the options of the preparation, and with its scripts."""
    script = ROOT / spec["prepare"]
    digest = hashlib.sha256(repr([script.name, spec.get("options", [])]).encode())
    folder = script.parent
    shared = [*folder.glob("lib/*.sh"), *folder.glob("*.manifest"), folder / "checksums.txt"]
    modules = [path for path in folder.glob("corpora/**/*.py") if path.parent.name != "mini"]
    for path in sorted([script, *filter(Path.is_file, shared), *modules]):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:8]


def local_folder(recipe: Recipe, given: str | None) -> Path | None:
    """The local copy of the corpus: the folder given, else that of the recipe's environment variable, else the recipe's
    own where it exists, else None. Raises RecipeError.
    """
    spec = recipe.get("data", {})
    if given is not None and "local" not in spec:
        raise RecipeError(f"--local {given}: {spec['name']} takes no folder")
    variable = spec.get("variable", "")
    for value, origin in ((given, "--local "), (os.environ.get(variable), f"{variable}=")):
        if value and not Path(value).is_dir():
            raise RecipeError(
                f"{origin}{value}: no such folder; give the folder that holds {spec['name']} (train.* and so on)"
            )
        if value:
            return Path(value).resolve()
    if "local" not in spec:
        return None
    folder = ROOT / spec["local"]
    return folder.resolve() if folder.is_dir() else None


def prepare_argv(recipe: Recipe, data: Prepared, local: Path | None) -> list[str]:
    """The command that prepares the data; run again it continues, or does nothing.

    {folder} in an option is the data's folder.
    """
    spec = recipe.get("data")
    return [
        "bash",
        str(ROOT / spec["prepare"]),
        str(data.folder),
        *(str(option).replace("{folder}", str(data.folder)) for option in spec.get("options", [])),
        *(["--local", str(local)] if local else []),
    ]


def prepare(
    recipe: Recipe, data: Prepared, local: Path | None, progress: Progress, *, after: float, threads: int
) -> None:
    """Prepares the data. `after` are the seconds expected for what follows. Raises JobFailed.

    The message is one line where the script has said what is wrong with the data.
    """
    argv = prepare_argv(recipe, data, local)
    expected = 1.0 if data.bin.is_dir() else EXPECTED_SECONDS
    # The log lies beside the folder: the script owns the folder, with its lock.
    job = Job(argv, data.folder.parent / f"{data.folder.name}.log", threads=threads)
    try:
        while not job.finished():
            left = max(3.0, expected - (time.time() - job.started))
            progress.update(f"preparing {recipe.get('data')['name']}", left + after)
            time.sleep(0.3)
    except JobFailed:
        if line := job.error_line():
            raise JobFailed(f"{line} (log: {job.log})") from None
        raise
    finally:
        progress.close()
