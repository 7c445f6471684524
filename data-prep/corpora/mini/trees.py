"""Trees for smoke runs: of the mini corpora's sentences, and the mini treebank of the probing tasks.

    python data-prep/mini_trees.py TOK LANG FOLDER

writes FOLDER/SPLIT.LANG.tree, an arbitrary bracketing of each line of TOK/SPLIT.LANG, for each split in TOK: words in
pairs, and branches to the right, so that every level has phrases of more than one word.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

from corpora.errors import DataError, as_status
from corpora.mini.files import write
from corpora.text.lines import read_lines
from corpora.toy import grammar
from corpora.trees.leaves import to_leaf, unescape

TREEBANK = {"train": 400, "valid": 60, "test": 60}


def bracketing(words: list[str]) -> str:
    """Return a tree over the words; an empty text without words."""
    if not words:
        return ""
    leaves = [f"(W {to_leaf(word)})" for word in words]
    twos = [leaves[at : at + 2] for at in range(0, len(leaves), 2)]
    pairs = [f"(P {' '.join(two)})" if len(two) > 1 else two[0] for two in twos]
    right = pairs[-1]
    for pair in reversed(pairs[:-1]):
        right = f"(X {pair} {right})"
    return f"(ROOT (S {right}))"


def write_trees(tok: Path, lang: str, folder: Path) -> None:
    """Write one bracketing for each line of each split. Raises DataError."""
    texts = sorted(tok.glob(f"*.{lang}"))
    if not texts:
        raise DataError(f"{tok}: no text of {lang} there")
    for text in texts:
        write(folder / f"{text.name}.tree", (bracketing(line.split()) for _, line in read_lines(text)))


def treebank(folder: Path) -> None:
    """Write {train,valid,test}.mrg, for data-prep/prepare_probing.sh: trees of the toy grammar."""
    trees = (unescape(tree) for _, _, tree in grammar.pairs(1))
    for split, size in TREEBANK.items():
        write(folder / f"{split}.mrg", islice(trees, size))


CORPORA = {"probing": treebank}


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tok", type=Path)
    parser.add_argument("lang")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    write_trees(args.tok, args.lang, args.folder)
