"""Translate raw text by a trained model, without fairseq: a line in, a line out.

python -m fairseq_localattn translate --path CHECKPOINT < raw > translated
"""

from __future__ import annotations

import argparse
import inspect
import re
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from itertools import islice
from typing import Any, BinaryIO

import torch

from ..ranges import MOST, check_option
from .search import Options
from .text import OPTIONS, add_text_flags
from .translator import LONG, Translator, tell


def lines_of(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of a stream, which end at newlines alone; invalid UTF-8 is reported and replaced."""
    for number, line in enumerate(iter(stream.readline, b""), 1):
        text = line.decode("utf-8", "replace").strip()
        if "\ufffd" in text and line.decode("utf-8", "ignore").strip() != text:
            tell(f"line {number}: invalid UTF-8 was replaced; convert the text to UTF-8")
        yield text


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command; the options of the search have their names and defaults."""
    found = argparse.ArgumentParser(prog="python -m fairseq_localattn translate", description=__doc__.split("\n")[0])
    add = found.add_argument
    add("--path", required=True, metavar="PATH", help="a checkpoint of fairseq-train, or a folder of export")
    add_text_flags(add)
    said = meanings()
    for each in fields(Options):
        flag = "--" + each.name.replace("_", "-")
        if isinstance(each.default, bool):
            add(flag, action="store_true", help=said[each.name])
        else:
            add(flag, type=type(each.default), default=each.default, help=f"{said[each.name]} (default: %(default)s)")
    add("--seed", type=int, help="seed of --sampling (default: another one each time)")
    add("--max-tokens", type=int, default=4000, help="tokens of a batch, padding included (default: 4000)")
    add("--buffer-size", type=int, default=10_000, help="lines that are read before they are translated")
    add("--long", choices=LONG, help="what to translate of a line that is too long (default: pieces, or as the "
        "training cut it)")  # fmt: skip
    add("--scores", action="store_true", help="write the score and a tab before each translation")
    add("--int8", action="store_true", help="compute with weights of 8 bits; faster for wide models")
    add("--threads", type=int, help="threads of torch")
    return found


def meanings() -> dict[str, str]:
    """Return what the docstring of :class:`Options` says of each."""
    found = re.findall(r"^ {4}([\w, ]+): (.+(?:\n {8}.+)*)", inspect.getdoc(Options) or "", re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".") for names, text in found for name in names.split(", ")}


def main(argv: Sequence[str] | None = None) -> None:
    """Translate stdin to stdout."""
    args = parser().parse_args(argv)
    options = Options(**{each.name: getattr(args, each.name) for each in fields(Options)})
    bounds = {"max_tokens": (1, MOST), "buffer_size": (1, MOST), "threads": (1, 1024), "seed": (-(2**63), 2**64 - 1)}
    for name, each in bounds.items():
        if (value := getattr(args, name)) is not None:
            check_option(f"--{name.replace('_', '-')}", value, *each)
    if args.threads:
        torch.set_num_threads(args.threads)
    if args.seed is not None:
        torch.manual_seed(args.seed)
    names = ("source_lang", "target_lang", *OPTIONS, "int8", "max_tokens")
    given = {name: getattr(args, name) for name in names}
    try:
        translator = Translator.load(args.path, args.data, options=options, long=args.long, **given)
        for lines in write(translator, lines_of(sys.stdin.buffer), args.buffer_size, scores=args.scores):
            with _whole():
                sys.stdout.buffer.write("".join(lines).encode("utf-8"))
                sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        tell("interrupted; the lines that are written are whole")
        raise SystemExit(130) from None  # as a shell says of a command that is interrupted


def write(translator: Translator, lines: Iterable[str], size: int, *, scores: bool) -> Iterator[list[str]]:
    """Yield the lines to write, for ``size`` lines at a time."""
    rest, first = iter(lines), 1
    while buffer := list(islice(rest, size)):
        with _bar(len(buffer)) as bar:
            found = translator.translate(buffer, first, bar)
        yield [f"{score:.4f}\t{text}\n" if scores else f"{text}\n" for best in found for text, score in best]
        first += len(buffer)


@contextmanager
def _whole() -> Iterator[None]:
    """Let Ctrl-C wait for the end of a block: a write to a full pipe that it ends would leave part of a line."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def _bar(total: int) -> Any:
    """Return a progress bar on stderr; without tqdm there is none."""
    try:
        from ..progress import progress_bar
    except ModuleNotFoundError:
        return nullcontext()
    return progress_bar(total, "lines")


if __name__ == "__main__":
    main()
