"""Trees for smoke runs: of the mini corpora's sentences, and the mini treebank of the probing tasks.

    python data-prep/mini_trees.py TOK LANG FOLDER

writes FOLDER/SPLIT.LANG.tree, some bracketing of each line of TOK/SPLIT.LANG, for all splits that are there: words in
pairs, and branches to the right. It says nothing of the language; it has phrases of more than one word on each level.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from corpora.text.parallel import DataError, as_status
from corpora.text.streams import read_bytes

TREEBANK = {"train": 400, "valid": 60, "test": 60}
NOUNS = ("dog", "ladder", "king", "station", "letter", "horse", "garden", "doctor")
VERBS = {"see": ("sees", "saw", "seen"), "take": ("takes", "took", "taken"), "give": ("gives", "gave", "given")}


def bracketing(words: list[str]) -> str:
    """A tree over the words; empty for no words."""
    if not words:
        return ""
    leaves = [f"(W {_escaped(word)})" for word in words]
    twos = [leaves[at : at + 2] for at in range(0, len(leaves), 2)]
    pairs = [f"(P {' '.join(two)})" if len(two) > 1 else two[0] for two in twos]
    right = pairs[-1]
    for pair in reversed(pairs[:-1]):
        right = f"(X {pair} {right})"
    return f"(ROOT (S {right}))"


def _escaped(word: str) -> str:
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def write_trees(tok: Path, lang: str, folder: Path) -> None:
    """One bracketing a line of each split. Raises DataError."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = sorted(tok.glob(f"*.{lang}"))
    if not texts:
        raise DataError(f"{tok}: no text of {lang} there")
    for text in texts:
        with (folder / f"{text.name}.tree").open("w", encoding="utf-8") as out:
            for _, line in read_bytes(text):
                out.write(bracketing(line.decode("utf-8").split()) + "\n")


def sentence(rng: random.Random) -> str:
    """A tree of a sentence in the present or the past, active or passive, with or without an adverbial before it."""

    def noun() -> str:
        return f"(NP (DT {rng.choice(('the', 'a'))}) (NN {rng.choice(NOUNS)}))"

    present, past, participle = VERBS[rng.choice(list(VERBS))]
    now = rng.random() < 0.5
    if rng.random() < 0.5:
        be = "(VBZ is)" if now else "(VBD was)"
        verb = f"(VP {be} (VP (VBN {participle}) (PP (IN by) {noun()})))"
    else:
        verb = f"(VP {f'(VBZ {present})' if now else f'(VBD {past})'} {noun()})"
    first = "(PP (IN in) (NP (DT the) (NN evening))) " if rng.random() < 0.3 else ""
    return f"(ROOT (S {first}{noun()} {verb} (. .)))"


def treebank(folder: Path) -> None:
    """{train,valid,test}.mrg, as data-prep/prepare_probing.sh takes them."""
    rng = random.Random(1)
    folder.mkdir(parents=True, exist_ok=True)
    for split, size in TREEBANK.items():
        (folder / f"{split}.mrg").write_text("".join(sentence(rng) + "\n" for _ in range(size)), encoding="utf-8")


CORPORA = {"probing": treebank}


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tok", type=Path)
    parser.add_argument("lang")
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    write_trees(args.tok, args.lang, args.folder)


if __name__ == "__main__":
    sys.exit(main())
