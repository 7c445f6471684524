"""Parts that the commands of the analyses share: arguments and their checks, logging, CSV files and figures."""

from __future__ import annotations

import argparse
import csv
import importlib
import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..files import OutputError, check_file, replaced


def checkpoint_parser(command: str, description: str) -> argparse.ArgumentParser:
    """Return a parser with the arguments of every command that compares checkpoints of one data folder."""
    parser = argparse.ArgumentParser(prog=f"python -m fairseq_localattn.analysis.{command}", description=description)
    parser.add_argument("data", metavar="DATA", help="folder that fairseq-preprocess wrote")
    parser.add_argument("--path", action="append", required=True, metavar="CHECKPOINT", help="may be repeated")
    parser.add_argument("--name", action="append", default=[], help="what to call each checkpoint, in the same order")
    parser.add_argument("--cpu", action="store_true", help="do not use the GPU")
    add_user_dir(parser)
    return parser


def add_user_dir(parser: argparse.ArgumentParser) -> None:
    """Add fairseq's flag ``--user-dir``, which every command takes; the folder is imported while it is parsed."""
    parser.add_argument("--user-dir", action=_UserDir, metavar="DIR", help="folder of a mechanism or a model of yours")


class _UserDir(argparse.Action):
    """Imports a folder as fairseq's commands do. Raises UsageError if there is none."""

    def __call__(self, parser: object, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        if not Path(values).is_dir():
            raise UsageError(f"--user-dir {values}: no such folder")
        namespace.user_dir = values
        from fairseq.utils import import_user_module  # here, as its import takes seconds

        import_user_module(namespace)


def show_progress_alone() -> None:
    """Show only progress bars and warnings of what fairseq, torch and matplotlib log on stderr."""
    logging.basicConfig()
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("fairseq.logging.progress_bar").setLevel(logging.INFO)
    # On pinned memory of the data loader and on fairseq's masks: neither matters here.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\.")


def checkpoint_names(paths: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the name of each checkpoint: from ``names``, else its file's name, or its path if file names are equal.

    Raises UsageError unless there are as many names as paths, all different.
    """
    if not names:
        files = [Path(path).name for path in paths]
        names = files if len(set(files)) == len(files) else list(paths)
    if len(names) != len(paths):
        raise UsageError(f"--name: {len(names)} given for {len(paths)} --path; give one each, in the same order")
    if len(set(names)) != len(names):
        raise UsageError(f"two checkpoints are called {max(names, key=list(names).count)}: give each its own --name")
    return list(names)


def check_checkpoint(path: str | Path, flag: str = "--path") -> None:
    """Raise UsageError for a checkpoint that does not exist or is no file, such as a folder of export."""
    if not Path(path).is_file():
        why = "it is no file" if Path(path).exists() else "no such file"
        raise UsageError(f"{flag} {path}: {why}; give a checkpoint of fairseq-train")


def check_files(paths: Sequence[str], outputs: Mapping[str, Path | None], plot: Path | None) -> None:
    """Raise UsageError for a checkpoint that does not exist and for an output, by flag, that cannot be written."""
    for path in paths:
        check_checkpoint(path)
    for flag, file in outputs.items():
        if file is not None:
            check_output(file, flag)
    if plot is not None:
        check_plot(plot)


def check_output(path: Path, flag: str) -> None:
    """Create the folder of an output file. Raises UsageError if the file cannot be written."""
    try:
        check_file(path)
    except OutputError as error:
        raise UsageError(f"{flag} {error}") from error


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Context manager: yield the name of a file that takes the place of ``path`` as a whole. Raises UsageError."""
    try:
        with replaced(path) as part:
            yield part
    except OutputError as error:
        raise UsageError(str(error)) from error


def save_figure(figure: Any, path: Path, dpi: int = 150, **options: Any) -> None:
    """Write a picture of the kind that its name says, in place of an existing one. Raises UsageError."""
    with written(path) as part:
        figure.savefig(part, format=path.suffix[1:].lower(), dpi=dpi, **options)


def check_plot(path: Path, flag: str = "--plot") -> None:
    """Raise UsageError, which names the flag, if matplotlib is missing or does not write files of this kind."""
    known = matplotlib(".backends.backend_agg", flag).FigureCanvasAgg.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise UsageError(
            f"{flag} {path}: the name must end in one of {', '.join('.' + kind for kind in sorted(known))}"
        )


def matplotlib(module: str, flag: str = "--plot") -> Any:
    """Import and return a module of matplotlib, such as ``.figure``. Raises UsageError if it is not installed."""
    try:
        return importlib.import_module(f"matplotlib{module}")
    except ImportError as error:
        raise UsageError(f"{flag} needs matplotlib ({error}): pip install 'fairseq_localattn[plot]'") from error


def new_figure(**options: Any) -> Any:
    """Return an empty matplotlib ``Figure`` with these options that needs no display."""
    figure = matplotlib(".figure").Figure(layout="constrained", **options)
    matplotlib(".backends.backend_agg").FigureCanvasAgg(figure)
    return figure


def wrapped(text: str, width: int) -> str:
    """Return a title in lines of at most ``width`` characters, broken at spaces, and behind /, _ and - in names.

    Not within parentheses, so that a mechanism stays whole, nor within a word: a longer one has a line of its own.
    """
    parts = re.findall(r"(?:\([^()]*\)|[^\s/_-])*(?:[/_-]+|\s+|$)", text)
    lines = [""]
    for part in filter(None, parts):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def save_csv(path: Path, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write a CSV file with a header, in place of an existing one. Raises UsageError."""
    with written(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
