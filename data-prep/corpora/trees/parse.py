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
import json
import os
import sys
import time
from collections.abc import Sequence
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
        self._kept: bytes | None = None  # trees of an interrupted run, until they are written again

    def lines_done(self) -> int:
        """Return the number of lines in the whole blocks of an interrupted run."""
        data = b""
        if self.about.exists() and self.about.read_bytes() == self._text.encode() and self.path.exists():
            data = self.path.read_bytes()
        lines = data.split(b"\n")[:-1]
        done = len(lines) // self.block * self.block
        self._kept = b"".join(line + b"\n" for line in lines[:done])
        return done

    def append(self, trees: Sequence[str]) -> None:
        """Write the trees of the next block; the first call removes a cut-off block and trees of other text."""
        if self._kept is not None:
            temporary = self.path.with_name(f"{self.path.name}{os.getpid()}")
            temporary.write_bytes(self._kept)
            # The old trees are removed first, so that the new description never stands for them.
            self.path.unlink(missing_ok=True)
            self.about.write_text(self._text, "utf-8")
            os.replace(temporary, self.path)
            self._kept = None
        with self.path.open("a", encoding="utf-8", newline="\n") as part:
            part.write("".join(tree + "\n" for tree in trees))

    def finish(self) -> list[str]:
        """Rename OUT.part to OUT; return its lines. Raises DataError where it is not UTF-8."""
        self.append([])  # removes half a line that follows the last block
        try:
            trees = self.path.read_bytes().decode("utf-8").split("\n")[:-1]
        except UnicodeDecodeError:
            raise DataError(f"{self.path}: damaged; remove it, and parse the text again") from None
        os.replace(self.path, self.out)
        self.about.unlink()
        return trees


def parse_file(args: argparse.Namespace) -> None:
    """Parse args.source into args.out, and print the report; raises DataError."""
    from corpora.trees.parser_stanza import Settings, fingerprint, parse_blocks

    lines = [text.split() for _, text in read_lines(args.source, open_end=True)]
    origin = {
        "text": hashlib.sha256(args.source.read_bytes()).hexdigest(), "lang": args.lang,
        "models": fingerprint(args.lang, args.models), "batch": args.batch, "max_words": args.max_words,
    }  # fmt: skip
    block = BLOCK * args.batch
    part = Part(args.out, origin, block)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    done = part.lines_done()
    if done:
        print(f"{args.out.name}: continues after line {done:,} of {len(lines):,}", flush=True)
    blocks = [lines[start : start + block] for start in range(done, len(lines), block)]
    settings = Settings(args.lang, args.models, batch=args.batch, max_words=args.max_words, cpu=args.cpu)
    begin = time.monotonic()
    with progress(None, args.out.name, total=len(lines), initial=done) as bar:
        for trees in parse_blocks(blocks, settings, args.workers):
            part.append(trees)
            bar.update(len(trees))
    speed = f"; {(len(lines) - done) / (time.monotonic() - begin):.0f} lines/s" if blocks else ""
    print(f"{args.out.name}: {_report(lines, part.finish())}{speed}", flush=True)


def _report(lines: Sequence[list[str]], trees: Sequence[str]) -> str:
    blank = sum(not line for line in lines)
    failed = [number for number, (line, tree) in enumerate(zip(lines, trees, strict=True), 1) if line and not tree]
    where = f" (the first in line {failed[0]:,})" if failed else ""
    return f"{len(lines):,} sentences, {blank:,} blank, {len(failed):,} failed{where}"


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
    args = _arguments()
    if importlib.util.find_spec("stanza") is None:
        raise DataError("stanza is missing: pip install 'fairseq_localattn[parse]'")
    parse_file(args)


if __name__ == "__main__":
    sys.exit(main())
