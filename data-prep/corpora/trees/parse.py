"""Parses tokenised text with stanza: one Penn Treebank bracketing a line, whose leaves are the line's own tokens.

    python data-prep/parse.py --lang en [--models DIR] [--batch N] [--workers N] [--cpu] tok/train.en train.en.tree

The tokens are those of the Moses tokenizer: its entities (`&apos;s`) are unescaped for the parser, and in the trees,
where brackets are -LRB- and so on. A blank line gives an empty line, as does a sentence that cannot be parsed or has
more than --max-words words; the report counts them. Without --models stanza's own downloaded models are used; models
trained by train_parser.py are given by their folder. Uses a GPU where there is one, unless --cpu.

A killed run continues where it stopped: finished blocks are in OUT.part, which becomes OUT when all lines are done.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpora.text.parallel import DataError
from experiments.runs.progress import Progress

BLOCK = 4  # batches that are parsed, and written, at a time


class Part:
    """OUT.part, the trees of the first lines, and OUT.part.json, which says of what they are the trees.

    Blocks are always the same lines, so that an interrupted run gives the same bytes as one in one go.
    """

    def __init__(self, out: Path, origin: dict[str, object], block: int) -> None:
        self.out, self.block = out, block
        self.path, self.about = (out.with_name(out.name + ending) for ending in (".part", ".part.json"))
        self._text = json.dumps(origin)

        self._kept: bytes | None = None  # of an interrupted run, until they are written again

    def lines_done(self) -> int:
        """Return the number of lines, of whole blocks, that need not be parsed again."""
        data = b""
        if self.about.exists() and self.about.read_text("utf-8") == self._text and self.path.exists():
            data = self.path.read_bytes()
        lines = data.split(b"\n")[:-1]
        done = len(lines) // self.block * self.block
        self._kept = b"".join(line + b"\n" for line in lines[:done])
        return done

    def append(self, trees: Sequence[str]) -> None:
        """Write the trees of the next block; a block that was cut off, and foreign trees, go before the first."""
        if self._kept is not None:
            temporary = self.path.with_name(f"{self.path.name}{os.getpid()}")
            temporary.write_bytes(self._kept)
            # The old trees go first: without them, what is said of them says nothing wrong.
            self.path.unlink(missing_ok=True)
            self.about.write_text(self._text, "utf-8")
            os.replace(temporary, self.path)
            self._kept = None
        with self.path.open("a", encoding="utf-8", newline="\n") as part:
            part.write("".join(tree + "\n" for tree in trees))

    def finish(self) -> list[str]:
        """Rename the part to OUT; return its lines."""
        self.append([])  # an interrupted run may have had all blocks, and half a line
        trees = self.path.read_bytes().decode("utf-8").split("\n")[:-1]
        os.replace(self.path, self.out)
        self.about.unlink()
        return trees


def parse_file(args: argparse.Namespace) -> None:
    """Parse args.source into args.out, and print the report; raises DataError."""
    lines, origin = _read(args)
    block = BLOCK * args.batch
    part = Part(args.out, origin, block)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    done = part.lines_done()
    progress = Progress()
    if done:
        progress.say(f"{args.out.name}: goes on after line {done:,} of {len(lines):,}")
    blocks = [lines[start : start + block] for start in range(done, len(lines), block)]
    words = [sum(map(len, lines)) for lines in blocks]
    begin, parsed = time.time(), 0
    for number, trees in enumerate(_trees(blocks, args), 1):
        part.append(trees)
        parsed += len(trees)
        speed = max(1, sum(words[:number])) / (time.time() - begin)
        progress.update(f"{args.out.name}: {done + parsed:,} of {len(lines):,} lines", sum(words[number:]) / speed)
    progress.close()
    speed_text = f"; {parsed / (time.time() - begin):.0f} lines/s" if parsed else ""
    print(f"{args.out.name}: {_report(lines, part.finish())}{speed_text}", flush=True)


def _read(args: argparse.Namespace) -> tuple[list[list[str]], dict[str, object]]:
    """Return the words of each line, and what the trees depend on."""
    try:
        data = args.source.read_bytes()
    except OSError as error:
        raise DataError(f"{args.source}: cannot be read: {error.strerror}") from None
    if not data:
        raise DataError(f"{args.source}: is empty")
    lines = []
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        try:
            lines.append(line.decode("utf-8").split())
        except UnicodeDecodeError as error:
            raise DataError(f"{args.source}:{number}: invalid UTF-8 at byte {error.start + 1} of the line") from None
    from corpora.trees.parser_stanza import fingerprint

    origin = {
        "text": hashlib.sha256(data).hexdigest(), "lang": args.lang, "models": fingerprint(args.lang, args.models),
        "batch": args.batch, "max_words": args.max_words,
    }  # fmt: skip
    return lines, origin


def _trees(blocks: Sequence[list[list[str]]], args: argparse.Namespace) -> Iterator[list[str]]:
    from corpora.trees.parser_stanza import parse_blocks

    return parse_blocks(blocks, args.lang, args.models, args.batch, args.max_words, args.cpu, args.workers)


def _report(lines: Sequence[list[str]], trees: Sequence[str]) -> str:
    blank = sum(not line for line in lines)
    failed = [number for number, (line, tree) in enumerate(zip(lines, trees, strict=True), 1) if line and not tree]
    where = f" (the first in line {failed[0]:,})" if failed else ""
    return f"{len(lines):,} sentences, {blank:,} blank, {len(failed):,} failed{where}"


def _number(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text!r}")
    return int(text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path, metavar="IN", help="tokenised text, a sentence a line")
    parser.add_argument("out", type=Path, metavar="OUT", help="the trees, a sentence a line")
    parser.add_argument("--lang", required=True, help="code of the language: en, de, …")
    parser.add_argument("--models", type=Path, help="folder of stanza's models (default: where stanza downloads them)")
    parser.add_argument("--batch", type=_number, default=250, help="sentences parsed together (default: %(default)s)")
    parser.add_argument("--max-words", type=_number, default=200, help="longer sentences fail (default: %(default)s)")
    parser.add_argument("--workers", type=_number, default=1, help="processes, without a GPU (default: %(default)s)")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    return parser.parse_args()


def main() -> int:
    args = _arguments()
    if importlib.util.find_spec("stanza") is None:
        print("parse.py: stanza is missing: pip install 'fairseq_localattn[parse]'", file=sys.stderr)
        return 1
    try:
        parse_file(args)
    except DataError as error:
        print(f"data error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"data error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
