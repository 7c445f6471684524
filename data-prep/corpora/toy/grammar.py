"""Writes the toy corpus: German-English pairs from a seeded synchronous grammar, with the trees of the English.

    python -m corpora.toy.grammar OUT --seed 1 --train 20000 --valid 500 --test 500

writes OUT/{train,valid,test}.{de,en}, raw text, and OUT/{train,valid,test}.en.tree, one Penn Treebank bracketing a line
whose leaves are the tokens that the Moses tokenizer makes of the English line. No sentence of either language occurs
twice, so the splits are disjoint on both sides. Equal seeds and sizes give equal bytes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from corpora.arguments import positive
from corpora.errors import as_status
from corpora.toy import english as toy_english
from corpora.toy import german as toy_german
from corpora.toy.sample import Sampler

# Escapes of the Moses tokenizer that occur in this corpus.
_ESCAPES = {"'s": "&apos;s"}
_MAX_TOKENS = 28


def join(words: list[str]) -> str:
    """Return the raw text of tokens: punctuation and the English possessive follow the word without a space."""
    text = ""
    for word in words:
        text += word if not text or word in (",", ".", "?", "'s") else " " + word
    return text


def pairs(seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield (German, English, tree of the English) without end; no sentence of either language comes twice."""
    sampler = Sampler(seed)
    seen_german: set[str] = set()
    seen_english: set[str] = set()
    while True:
        meaning = sampler.sentence()
        german = toy_german.sentence(meaning)
        tree = toy_english.sentence(meaning)
        leaves = tree.leaves()
        if max(len(german), len(leaves)) > _MAX_TOKENS:
            continue
        german_text, english_text = join(german), join([leaf.word for leaf in leaves])
        if german_text in seen_german or english_text in seen_english:
            continue
        seen_german.add(german_text)
        seen_english.add(english_text)
        for leaf in leaves:
            leaf.word = _ESCAPES.get(leaf.word, leaf.word)
        yield german_text, english_text, str(tree)


def write(out: Path, seed: int, sizes: dict[str, int]) -> None:
    """Write the splits to `out`, from a temporary folder in it when all are complete."""
    out.mkdir(parents=True, exist_ok=True)
    temporary = out / f".writing.{os.getpid()}"
    temporary.mkdir()
    try:
        source = pairs(seed)
        names = []
        # Small splits first: the size of the training set does not change them.
        for split in sorted(sizes, key=lambda name: name == "train"):
            paths = [temporary / f"{split}.{extension}" for extension in ("de", "en", "en.tree")]
            german, english, trees = (path.open("w", encoding="utf-8", newline="\n") for path in paths)
            with german, english, trees:
                for _ in range(sizes[split]):
                    for handle, text in zip((german, english, trees), next(source), strict=True):
                        handle.write(text + "\n")
            names += [path.name for path in paths]
        for name in names:
            os.replace(temporary / name, out / name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--seed", type=int, default=1, help="seed of the grammar (default: %(default)s)")
    for split, size in (("train", 20000), ("valid", 500), ("test", 500)):
        parser.add_argument(f"--{split}", type=positive, default=size, help="sentence pairs (default: %(default)s)")
    args = parser.parse_args()
    write(args.out, args.seed, {"train": args.train, "valid": args.valid, "test": args.test})


if __name__ == "__main__":
    sys.exit(main())
