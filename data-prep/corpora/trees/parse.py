"""Parses tokenised text with stanza: one Penn Treebank bracketing a line, whose leaves are the line's own tokens.

    python data-prep/parse.py --lang en [--models DIR] [--batch N] [--workers N] [--cpu] tok/train.en train.en.tree

The tokens are those of the Moses tokenizer; its entities (`&apos;s`) are unescaped for the parser and in the trees,
where brackets are -LRB- and so on. A blank line gives an empty line, as does a sentence that cannot be parsed or has
more than --max-words words; the report counts both. --models is a folder that data-prep/train_parser.py has made;
the default is the folder to which stanza downloads its own models. A GPU is used where there is one, unless --cpu.

A killed run is continued: finished blocks are in OUT.HASH.part, which becomes OUT when all lines are done. The hash is
that of text, models and options; blocks begin at fixed lines, so that the bytes are those of an uninterrupted run.
"""

from __future__ import annotations

import argparse
import glob
import hashlib
import importlib.util
import math
import os
import time
from pathlib import Path

from corpora.arguments import at_least
from corpora.errors import DataError, as_status
from corpora.text.lines import read_lines
from corpora.text.linewise import change_chunks

BLOCK = 4  # batches that are parsed and written together


def parse_file(
    source: Path, out: Path, *, lang: str, models: Path | None = None, batch: int = 250, max_words: int = 200,
    workers: int = 1, cpu: bool = False,
) -> None:  # fmt: skip
    """Parse a text into a file of trees, and print the report; raises DataError. The options are the command's."""
    if importlib.util.find_spec("stanza") is None:
        raise DataError("stanza is missing: pip install 'fairseq_localattn[parse]'")
    from corpora.trees.parser_stanza import Settings, fingerprint, maker

    total = sum(1 for _ in read_lines(source, open_end=True))
    with source.open("rb") as text:
        digest = hashlib.file_digest(text, "sha256").hexdigest()
    origin = repr((digest, lang, fingerprint(lang, models), batch, max_words))
    part = out.with_name(f"{out.name}.{hashlib.sha256(origin.encode()).hexdigest()[:12]}.part")
    for other in out.parent.glob(f"{glob.escape(out.name)}.{'[0-9a-f]' * 12}.part"):  # of another text or parser
        if other != part:
            other.unlink()
    size, begin = BLOCK * batch, time.monotonic()
    workers = min(workers, max(1, math.ceil(total / size)))  # before the cores are divided among them
    make, workers = maker(Settings(lang, models, batch=batch, max_words=max_words, cpu=cpu), workers)
    chunks = change_chunks(
        source, part, make, workers, title=out.name, size=size, whole=size, total=total,
        context="spawn",  # a process that has used a GPU or threads must not be forked
    )  # fmt: skip
    made = sum(1 for _ in chunks)
    speed = f"; {made / (time.monotonic() - begin):.0f} lines/s" if made else ""
    try:
        print(f"{out.name}: {_report(source, part)}{speed}", flush=True)
    except DataError as error:
        raise DataError(f"{error}; remove {part}, and parse the text again") from None
    os.replace(part, out)


def _report(source: Path, trees: Path) -> str:
    count = blank = failed = first = 0
    sides = (read_lines(path, open_end=True) for path in (source, trees))
    for count, ((_, line), (_, tree)) in enumerate(zip(*sides, strict=True), 1):
        blank += not line.split()
        if line.split() and not tree:
            failed += 1
            first = first or count
    where = f" (the first in line {first:,})" if failed else ""
    return f"{count:,} sentences, {blank:,} blank, {failed:,} failed{where}"


@as_status
def main() -> None:
    number = at_least(1)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, metavar="IN", help="tokenised text, a sentence a line")
    parser.add_argument("out", type=Path, metavar="OUT", help="the trees, a sentence a line")
    parser.add_argument("--lang", required=True, help="code of the language: en, de, …")
    parser.add_argument("--models", type=Path, help="folder of stanza's models (default: where stanza downloads them)")
    parser.add_argument("--batch", type=number, default=250, help="sentences parsed together (default: %(default)s)")
    parser.add_argument("--max-words", type=number, default=200, help="longer sentences fail (default: %(default)s)")
    parser.add_argument("--workers", type=number, default=1, help="processes, without a GPU (default: %(default)s)")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    parse_file(**vars(parser.parse_args()))
