"""What the commands of the analyses share: their checkpoints' names, what they tell, and the files that they write."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError


def show_progress_alone() -> None:
    """Of what fairseq, torch and matplotlib tell on stderr, keep the progress and fairseq's warnings."""
    logging.basicConfig()
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("fairseq.logging.progress_bar").setLevel(logging.INFO)
    # Of the loader's pinned memory and of fairseq's masks, neither of which matters here.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\.")


def checkpoint_names(paths: Sequence[str], names: Sequence[str]) -> list[str]:
    """What each checkpoint is called: ``names``, else its file's name, or its path where files share a name.

    Raises UsageError if there are not as many names as paths, or two are the same.
    """
    if not names:
        files = [Path(path).name for path in paths]
        names = files if len(set(files)) == len(files) else list(paths)
    if len(names) != len(paths):
        raise UsageError(f"--name: {len(names)} given for {len(paths)} --path; give one each, in the same order")
    if len(set(names)) != len(names):
        raise UsageError(f"two checkpoints are called {max(names, key=list(names).count)}: give each its own --name")
    return list(names)


def check_files(paths: Sequence[str], written: Mapping[str, Path | None], plot: Path | None) -> None:
    """Raise UsageError for a checkpoint that is not there and for files, by flag, that cannot be written."""
    for path in paths:
        if not Path(path).is_file():
            raise UsageError(f"--path {path}: no such file")
    for flag, file in written.items():
        if file is not None:
            check_output(file, flag)
    if plot is not None:
        check_plot(plot)


def check_output(path: Path, flag: str) -> None:
    """Make the folder of a file to be written. Raises UsageError if the file cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error.strerror}: {error.filename}") from error
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{flag} {path}: cannot be written; give the name of a file in a folder of yours")


def check_plot(path: Path) -> None:
    """Raise UsageError if matplotlib is missing or does not write files of this kind."""
    known = matplotlib(".backends.backend_agg").FigureCanvasAgg.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise UsageError(
            f"--plot {path}: the name must end in one of {', '.join('.' + kind for kind in sorted(known))}"
        )


def matplotlib(module: str) -> Any:
    """A module of matplotlib, imported only when a plot is asked for. Raises UsageError where it is not installed."""
    try:
        return importlib.import_module(f"matplotlib{module}")
    except ImportError as error:
        raise UsageError(f"--plot needs matplotlib ({error}): pip install 'fairseq_localattn[plot]'") from error
