"""Parses tokenised text with stanza: one Penn Treebank bracketing a line, whose leaves are the line's own tokens.

    python data-prep/parse.py --lang en [--models DIR] [--batch N] [--workers N] [--cpu] tok/train.en train.en.tree

The tokens are those of the Moses tokenizer; its entities (`&apos;s`) are unescaped for the parser and in the trees,
where brackets are -LRB- and so on. A blank line gives an empty line, as does a sentence that cannot be parsed or has
more than --max-words words; the report counts both. --models is a folder that data-prep/train_parser.py has made;
the default is the folder to which stanza downloads its own models. A GPU is used where there is one, unless --cpu.

A killed run is continued: finished blocks are in OUT.part, which becomes OUT when all lines are done.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from corpora.arguments import positive
from corpora.errors import DataError, as_status
from corpora.progress import progress
from corpora.text.lines import read_lines

BLOCK = 4  # batches that are parsed and written together


class Part:
    """OUT.part, the trees of the first lines, and OUT.part.json, the description of their text and models.

    Blocks begin at fixed lines, so that a continued run gives the bytes of an uninterrupted one.
    """

    def __init__(self, out: Path, origin: dict[str, object], block: int) -> None:
        self.out, self.block = out, block
        self.path, self.about = (out.with_name(out.name + ending) for ending in (".part", ".part.json"))
        self._text = json.dumps(origin)

    def lines_done(self) -> int:
        """Return the number of lines in the whole blocks of an interrupted run; what follows them is removed."""
        if not (self.about.exists() and self.about.read_bytes() == self._text.encode() and self.path.exists()):
            return 0
        done = end = at = 0
        with self.path.open("r+b") as part:
            for number, line in enumerate(part, 1):
                at += len(line)
                if line.endswith(b"\n") and number % self.block == 0:
                    done, end = number, at
            part.truncate(end)
        return done

    def append(self, trees: Sequence[str], first: bool = False) -> None:
        """Write the trees of the next block; first: no others are to stay."""
        if first:  # the old trees are removed first, so that the new description never stands for them
            self.path.unlink(missing_ok=True)
            self.about.write_text(self._text, "utf-8")
        with self.path.open("a", encoding="utf-8", newline="\n") as part:
            part.write("".join(tree + "\n" for tree in trees))

    def lines(self) -> Iterator[str]:
        """Yield the trees so far. Raises DataError where they are not UTF-8."""
        try:
            with self.path.open(encoding="utf-8", newline="\n") as part:
                for line in part:
                    yield line.removesuffix("\n")
        except UnicodeDecodeError:
            raise DataError(f"{self.path}: damaged; remove it, and parse the text again") from None

    def finish(self) -> None:
        """Rename OUT.part to OUT."""
        os.replace(self.path, self.out)
        self.about.unlink()


def parse_file(
    source: Path, out: Path, *, lang: str, models: Path | None = None, batch: int = 250, max_words: int = 200,
    workers: int = 1, cpu: bool = False,
) -> None:  # fmt: skip
    """Parse a text into a file of trees, and print the report; raises DataError. The options are the command's."""
    if importlib.util.find_spec("stanza") is None:
        raise DataError("stanza is missing: pip install 'fairseq_localattn[parse]'")
    from corpora.trees.parser_stanza import Settings, fingerprint, parse_blocks

    total = sum(1 for _ in _lines(source))
    with source.open("rb") as text:
        digest = hashlib.file_digest(text, "sha256").hexdigest()
    origin = {
        "text": digest, "lang": lang,
        "models": fingerprint(lang, models), "batch": batch, "max_words": max_words,
    }  # fmt: skip
    block = BLOCK * batch
    part = Part(out, origin, block)
    out.parent.mkdir(parents=True, exist_ok=True)
    done = part.lines_done()
    if done:
        print(f"{out.name}: continues after line {done:,} of {total:,}", flush=True)
    settings = Settings(lang, models, batch=batch, max_words=max_words, cpu=cpu)
    processes = min(workers, max(1, math.ceil((total - done) / block)))
    begin = time.monotonic()
    with progress(None, out.name, total=total, initial=done) as bar:
        for trees in parse_blocks(_blocks(source, block, done), settings, processes):
            part.append(trees, first=bar.n == 0)
            bar.update(len(trees))
    speed = f"; {(total - done) / (time.monotonic() - begin):.0f} lines/s" if done < total else ""
    report = _report(_lines(source), part.lines())
    part.finish()
    print(f"{out.name}: {report}{speed}", flush=True)


def _lines(source: Path) -> Iterator[list[str]]:
    return (text.split() for _, text in read_lines(source, open_end=True))


def _blocks(source: Path, size: int, start: int) -> Iterator[list[list[str]]]:
    """Yield the lines after the first ``start``, ``size`` at a time."""
    lines = itertools.islice(_lines(source), start, None)
    while block := list(itertools.islice(lines, size)):
        yield block


def _report(lines: Iterable[list[str]], trees: Iterable[str]) -> str:
    number = blank = failed = first = 0
    for number, (line, tree) in enumerate(zip(lines, trees, strict=True), 1):
        blank += not line
        if line and not tree:
            failed += 1
            first = first or number
    where = f" (the first in line {first:,})" if failed else ""
    return f"{number:,} sentences, {blank:,} blank, {failed:,} failed{where}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, metavar="IN", help="tokenised text, a sentence a line")
    parser.add_argument("out", type=Path, metavar="OUT", help="the trees, a sentence a line")
    parser.add_argument("--lang", required=True, help="code of the language: en, de, …")
    parser.add_argument("--models", type=Path, help="folder of stanza's models (default: where stanza downloads them)")
    parser.add_argument("--batch", type=positive, default=250, help="sentences parsed together (default: %(default)s)")
    parser.add_argument("--max-words", type=positive, default=200, help="longer sentences fail (default: %(default)s)")
    parser.add_argument("--workers", type=positive, default=1, help="processes, without a GPU (default: %(default)s)")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    return parser.parse_args()


@as_status
def main() -> None:
    parse_file(**vars(_arguments()))
