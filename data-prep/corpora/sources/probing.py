"""Makes the text and the labels of the probing tasks from constituency trees (fairseq_localattn/analysis/probing.py).

    python -m corpora.sources.probing PART --lang en --train FILE --valid FILE --test FILE [--escape] [--lowercase]

PART gets, line by line beside each other, {split}.LANG (the words of the trees, in the characters that Moses'
normalisation leaves; with --escape, in its entities), {split}.LANG.tree (with the words of the text) and
{split}.TASK.labels: a sentence's label, or one a word; an empty line where the task has none. Each error is one line
that names file and line, with exit status 1.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TextIO

from sacremoses import MosesPunctNormalizer, MosesTokenizer

from corpora.sources.sst import unescape
from corpora.text.parallel import DataError, as_status
from corpora.text.streams import decode, read_bytes, refuse_symbols

if __name__ == "__main__":
    logging.disable(logging.INFO)  # of fairseq, which the package imports

from fairseq_localattn.analysis.probing.labels import TASKS, labels_of
from fairseq_localattn.phrases.trees import TreeError, read_tree

SPLITS = ("train", "valid", "test")
PROGRESS_SECONDS = 30.0

_LEAF = re.compile(r" +([^\s()]+) *\)")


class Writer:
    """Writes a word of a tree as the training text of a translation model has it."""

    def __init__(self, lang: str, escape: bool, lowercase: bool) -> None:
        self.normalizer = MosesPunctNormalizer(lang=lang, perl_parity=True, post_remove_control_chars=True)
        self.tokenizer = MosesTokenizer(lang)
        self.escape, self.lowercase = escape, lowercase
        self.write = lru_cache(maxsize=200_000)(self._write)

    def _write(self, word: str) -> str:
        """One word stays one word: what normalisation would delete or take apart is left as it is."""
        word = unescape(word)
        plain = word
        if any(letter.isalnum() for letter in word):  # Moses takes ’s alone for a closing quote and an s
            plain = word.translate({0x2019: "'", 0x2018: "'", 0x60: "'"})
        plain = self.normalizer.normalize(plain + "\n").strip()
        if len(plain.split()) != 1:
            plain = "_".join(word.split())
        plain = self.tokenizer.escape_xml(plain) if self.escape else plain
        return plain.lower() if self.lowercase else plain


def in_brackets(word: str) -> str:
    """Return the word as a bracketing can hold it."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


@contextmanager
def written(path: Path) -> Iterator[TextIO]:
    """A text file that has its name only when it is complete."""
    temporary = path.with_name(f"{path.name}.part{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_treebank(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, bracketing); an empty one is a sentence without tree. Raises DataError with file and line."""
    for number, line in read_bytes(path):
        yield number, decode(path, number, line).strip()


def label_split(path: Path, part: Path, split: str, writer: Writer, lang: str) -> Counter[str]:
    """Write the files of a split from its trees; return how many sentences each task has, and how many there are.

    Sentences without a tree are left out. Raises DataError.
    """
    counts: Counter[str] = Counter()
    told = time.monotonic()
    with ExitStack() as files:
        text, trees = (files.enter_context(written(part / f"{split}.{name}")) for name in (lang, f"{lang}.tree"))
        labels = {task: files.enter_context(written(part / f"{split}.{task}.labels")) for task in TASKS}
        for number, line in read_treebank(path):
            if not line:
                counts["without a tree"] += 1
                continue
            try:
                tree = read_tree(line)
            except TreeError as error:
                raise DataError(f"{path}:{number}: {error}") from None
            sentence = " ".join(map(writer.write, tree.words()))
            refuse_symbols(path, number, sentence)
            text.write(sentence + "\n")
            trees.write(_LEAF.sub(lambda leaf: f" {in_brackets(writer.write(leaf[1]))})", line) + "\n")
            for task, found in labels_of(tree).items():
                labels[task].write(" ".join(found) + "\n")
                counts[task] += bool(found)
            counts["sentences"] += 1
            if number % 1000 == 0 and time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                print(f"{split}: {number:,} trees read so far", flush=True)
    if not counts["sentences"]:
        raise DataError(f"{path}: no line has a tree")
    return counts


def report(split: str, counts: Counter[str]) -> None:
    kept = ", ".join(f"{task} {counts[task]:,}" for task in TASKS)
    lost = f"; {counts['without a tree']:,} more lines have no tree" if counts["without a tree"] else ""
    print(f"{split}: {counts['sentences']:,} sentences; with a label: {kept}{lost}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", type=Path, help="an existing folder, to be written to")
    parser.add_argument("--lang", required=True)
    for split in SPLITS:
        parser.add_argument(f"--{split}", type=Path, required=True, help="one bracketing a line, plain or .gz")
    parser.add_argument("--escape", action="store_true", help="write &apos; and the like, as Moses' tokeniser does")
    parser.add_argument("--lowercase", action="store_true")
    return parser


@as_status
def main() -> None:
    args = _parser().parse_args()
    writer = Writer(args.lang, args.escape, args.lowercase)
    for split in SPLITS:
        report(split, label_split(getattr(args, split), args.part, split, writer, args.lang))


if __name__ == "__main__":
    sys.exit(main())
