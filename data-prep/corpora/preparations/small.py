"""The small German-English corpora: the toy corpus and Multi30k."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from corpora.preparations import texts, trees
from corpora.preparations.fetch import PREP_DIR, obtain
from corpora.preparations.options import Given, Options
from corpora.preparations.steps import Preparation, Step
from corpora.preparations.texts import Pair
from corpora.text import bitext
from corpora.text.lines import SPLITS, find_file, read_lines, write_lines
from corpora.toy import grammar

DE_EN = Pair("de", "en")


def toy(options: Options, words: Sequence[object]) -> Preparation:
    """German and English, cased. OUT/bin is for fairseq in both directions (-s de -t en, -s en -t de);
    OUT/raw/SPLIT.en.tree has the constituency trees of the English."""
    options.number("seed", 1, "seed of the grammar")
    options.number("train", 20000, "training pairs")
    options.number("valid", 500, "validation pairs")
    options.number("test", 500, "test pairs")
    options.number("bpe", 2000, "joint BPE merges")
    options.add("trees", "en", "write the phrases of the English to OUT/bin, from the grammar's trees", "")
    given = options.read(words)
    given.parser = given.tree_files = None
    trees.check(given, "en")
    generate = partial(grammar.write, seed=given.seed, sizes={split: getattr(given, split) for split in SPLITS})
    steps = [
        Step("raw", f"generate {given.train} + {given.valid} + {given.test} pairs", generate),
        Step("tok", "tokenise", partial(texts.tokenise, given, DE_EN.names(), given.out / "raw")),
        texts.bpe(given, DE_EN),
        texts.binarise(given, DE_EN),
        *([trees.phrases(given, given.out / "raw")] if given.trees else []),
    ]
    note = f"toy {given.settings('seed', *SPLITS, 'bpe')} grammar={grammar.VERSION}"
    return Preparation(given, note, steps)


# Multi30k

MULTI30K = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
OFFICIAL_NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
MANIFEST = PREP_DIR / "multi30k.manifest"


def multi30k(options: Options, words: Sequence[object]) -> Preparation:
    """Splits: train (29,000 pairs), valid = val (1,014), test = test_2016_flickr (1,000). OUT/bin is for fairseq in
    both directions."""
    options.corpus("MULTI30K", "folder with {train,val,test_2016_flickr}.{de,en}, plain or .gz")
    options.flag("lowercase", "lower-case the text, the raw references included")
    options.number("bpe", 4000, "joint BPE merges")
    options.trees("de or en", "($MULTI30K_TREES)")
    given = options.read(words)
    if given.trees and not given.parser and not given.tree_files and (found := os.environ.get("MULTI30K_TREES")):
        given.tree_files = Path(found)
    trees.check(given, "de", "en")
    given.need_local("{train,val,test_2016_flickr}.{de,en}")
    # Checked text is equal wherever it comes from; of unchecked text the folder is noted.
    checked = given.checked() if given.no_checksums else "checksums=1"
    note = f"multi30k {given.settings('lowercase', 'bpe')} {checked}"
    cased = given.out / "raw/cased" if given.lowercase else None
    tokenise = partial(texts.tokenise, given, DE_EN.names(), cased or given.out / "raw", lowercase=given.lowercase)
    steps = [
        Step("raw", "read and check the raw text", partial(_read_multi30k, given), reads=True),
        Step("tok", "tokenise", tokenise),
        texts.bpe(given, DE_EN),
        texts.binarise(given, DE_EN),
        *trees.steps(given, DE_EN, cased),
    ]
    return Preparation(given, note, steps, trees=trees.origin(given))


def _read_multi30k(given: Given, part: Path) -> None:
    names = [f"{OFFICIAL_NAMES[split]}.{lang}" for _, split, lang in DE_EN.names()]
    folder = given.local
    if folder is None:
        folder = [obtain(given, f"{MULTI30K}/{name}.gz").path for name in names][-1].parent
    rules = bitext.Rules(strict=True, manifest=None if given.no_checksums else MANIFEST)
    cased = part / "cased" if given.lowercase else part
    cased.mkdir(exist_ok=True)
    for split in SPLITS:
        one, two = (find_file(folder, name) for name in names if name.startswith(f"{OFFICIAL_NAMES[split]}."))
        bitext.join([(one, two)], DE_EN.files(cased / split), rules)
    for name, _, _ in DE_EN.names() if given.lowercase else ():
        write_lines(part / name, (line.lower() for _, line in read_lines(cased / name)))
