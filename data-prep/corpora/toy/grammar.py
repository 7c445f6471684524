"""German-English pairs from a seeded synchronous grammar, with the constituency trees of the English.

The leaves of a tree are the tokens that the Moses tokenizer makes of the English line. No sentence of either language
occurs twice, so the splits are disjoint on both sides. Equal seeds and sizes give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from corpora.text.lines import whole_files
from corpora.toy import english as toy_english
from corpora.toy import german as toy_german
from corpora.toy.sample import Sampler

# Names the text: the checksum of the first 6,000 pairs of seed 1. Prepared data of another text are refused.
VERSION = "4866f18f7725"
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
    """Write OUT/{train,valid,test}.{de,en}, raw text, and .en.tree, one Penn Treebank bracketing a line."""
    out.mkdir(parents=True, exist_ok=True)
    source = pairs(seed)
    # Small splits first: the size of the training set does not change them.
    for split in sorted(sizes, key=lambda name: name == "train"):
        with whole_files([out / f"{split}.{ending}" for ending in ("de", "en", "en.tree")]) as files:
            for texts in islice(source, sizes[split]):
                for file, text in zip(files, texts, strict=True):
                    file.write(text + "\n")
