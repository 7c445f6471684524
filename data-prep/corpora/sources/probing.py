"""Makes the text and the labels of the probing tasks of fairseq_localattn.analysis.probing from constituency trees.

A tree may go over several lines, as in the Penn Treebank: the next one begins at a line that is not indented. Blank
lines are left out. What is no tree, such as "(())" for a sentence without a parse, is listed, and is an error or left
out.

Written are aligned files in PART: {split}.LANG (the words of the trees in the characters of Moses' normalisation, or in
its entities), {split}.LANG.tree (with the words of the text) and {split}.TASK.labels (the label of the sentence or of
each word; an empty line where the task has none). Errors name file and line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.text.lines import Line, check_words, read_lines, whole_files
from corpora.tokens.moses_tokenize import Tokenizer
from corpora.trees.leaves import from_leaf
from fairseq_localattn.analysis.probing.labels import TASKS, labels_of
from fairseq_localattn.phrases.trees import TreeError, read_tree

_ROUND = {ord("("): "-LRB-", ord(")"): "-RRB-"}  # in the leaf of a bracketing
_LEAF = re.compile(r" +([^\s()]+) *\)")


def word_writer(lang: str, escape: bool, lowercase: bool) -> Callable[[str], str]:
    """Return what writes a word of a tree as the training text of a translation model has it."""
    moses = Tokenizer(lang)

    @lru_cache(maxsize=200_000)
    def write(leaf: str) -> str:
        """Return one word for one word: a word that normalisation deletes or splits is kept."""
        word = plain = from_leaf(leaf)
        if any(letter.isalnum() for letter in word):  # Moses takes ’s alone for a closing quote and an s
            plain = word.translate({0x2019: "'", 0x2018: "'", 0x60: "'"})
        plain = moses.normalizer.normalize(plain + "\n").strip()
        if len(plain.split()) != 1:
            plain = "_".join(word.split())
        plain = moses.tokenizer.escape_xml(plain) if escape else plain
        return plain.lower() if lowercase else plain

    return write


def bracketings(path: Path) -> Iterator[Line]:
    """Yield the number of the first line and the text of each tree, "" for a blank line; raises DataError."""
    begun: list[str] = []
    begin = depth = 0
    for number, line in read_lines(path):
        inside = depth > 0 and line[:1].isspace() and line.strip()
        if begun and not inside:
            yield begin, " ".join(begun)
            begun, depth = [], 0
        if not line.strip():
            yield number, ""
            continue
        begin = begin if begun else number
        begun.append(line.strip())
        depth += line.count("(") - line.count(")")
    if begun:
        yield begin, " ".join(begun)


def label_split(path: Path, part: Path, split: str, *, write: Callable[[str], str], lang: str) -> Counter[str]:
    """Write the files of a split from its trees; return the number of sentences, and of those with each task's label.

    path: trees as ``bracketings`` reads them. What is no tree is listed, left out and counted as "failed". Raises
    DataError.
    """
    counts: Counter[str] = Counter()
    names = [f"{split}.{lang}", f"{split}.{lang}.tree", *(f"{split}.{task}.labels" for task in TASKS)]
    with whole_files([part / name for name in names]) as (text, trees, *labels):
        for number, line in progress(bracketings(path), split, "trees"):
            if not line:
                counts["blank"] += 1
                continue
            try:
                tree = read_tree(line)
            except TreeError as error:
                print(f"{path}:{number}: {error}", flush=True)
                counts["failed"] += 1
                continue
            sentence = " ".join(map(write, tree.words()))
            check_words(path, number, sentence)
            text.write(sentence + "\n")
            trees.write(_LEAF.sub(lambda leaf: f" {write(leaf[1]).translate(_ROUND)})", line) + "\n")
            found = labels_of(tree)
            for task, out in zip(TASKS, labels, strict=True):
                out.write(" ".join(found[task]) + "\n")
                counts[task] += bool(found[task])
            counts["sentences"] += 1
        if not counts["sentences"]:
            raise DataError(f"{path}: no line has a tree")
    return counts


def prepare(
    files: Mapping[str, Path], part: Path, lang: str, *, escape: bool = False, lowercase: bool = False,
    skip_failed: bool = False,
) -> None:  # fmt: skip
    """Write all splits; skip_failed: leave out what is no tree. Raises DataError."""
    write, failed = word_writer(lang, escape, lowercase), 0
    for split, path in files.items():
        counts = label_split(path, part, split, write=write, lang=lang)
        kept = ", ".join(f"{task} {counts[task]:,}" for task in TASKS)
        lost = f"; blank lines: {counts['blank']:,}" if counts["blank"] else ""
        lost += f"; without a tree: {counts['failed']:,}" if counts["failed"] else ""
        print(f"{split}: {counts['sentences']:,} sentences; with a label: {kept}{lost}", flush=True)
        failed += counts["failed"]
    if failed and not skip_failed:
        raise DataError(f"what is listed above is no tree ({failed:,}): mend it, or leave it out with --skip-failed")
