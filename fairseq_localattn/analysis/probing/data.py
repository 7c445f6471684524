"""Data of the probing tasks, which data-prep/prepare_probing.sh writes: sentences, phrases, words and labels.

The folder has the binarised text (``train.en-None.en.bin``) and its phrases, and two kinds of text files with a line
for each sentence. ``{split}.words`` has the number of subwords of each word; ``{split}.TASK.labels`` has a label for
the sentence, or one for each of its words, and is empty for a sentence that the task leaves out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from torch import Tensor

from ...errors import UsageError
from ...phrases.dataset import PhraseData, collate_phrases, read_settings
from .labels import OTHER, WORD_TASKS

SPLITS = ("train", "valid", "test")
PREPARE = "data-prep/prepare_probing.sh writes it"
_SOURCE = re.compile(r"train\.(.+-(.+)\.(.+))\.idx")
_CONTENTS = re.compile(r"(dict\..*\.txt|(train|valid|test)\..*\.(bin|idx|labels)|(train|valid|test)\.words)")


@dataclass(frozen=True)
class Sentences:
    """Sentences of a split: subwords with </s>, the position of each word's last subword, phrases where needed."""

    split: str
    tokens: Any
    word_ends: list[Tensor]
    phrases: PhraseData | None

    def __len__(self) -> int:
        return len(self.word_ends)


@dataclass(frozen=True)
class Labelled:
    """The numbers of the sentences with labels for a task, and their labels: one each, or one a word.

    A label is the index of a class; the number of classes stands for a label that does not occur in training.
    """

    numbers: list[int]
    targets: list[Tensor]
    left_out: int

    @property
    def flat(self) -> Tensor:
        """All labels, concatenated."""
        return torch.cat(self.targets)


class ProbingData:
    """A folder of probing data. Raises UsageError where it lacks the text or the dictionary."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = [match for path in sorted(folder.glob("train.*.idx")) if (match := _SOURCE.fullmatch(path.name))]
        found = [match for match in found if not match[3].endswith("phrases")]
        if len(found) != 1:
            raise UsageError(f"{folder}: no binarised train.LANG-None.LANG.idx there; {PREPARE}")
        self.suffix, self.lang = found[0][1], found[0][3]
        names = folder / f"dict.{self.lang}.txt"
        if not names.exists():
            raise UsageError(f"{names}: no such file; {PREPARE}")
        self.dictionary = Dictionary.load(str(names))

    @property
    def phrase_levels(self) -> int:
        """Number of levels of the sentences' phrases; 0 without phrases."""
        there = (self.folder / f"{self.lang}.phrases.json").exists()
        return read_settings(self.folder, self.lang)[0] if there else 0

    def digest(self) -> str:
        """Return a checksum of all data files in the folder."""
        total = hashlib.sha256()
        for path in sorted(self.folder.iterdir()):
            if _CONTENTS.fullmatch(path.name):
                total.update(path.name.encode())
                total.update(path.read_bytes())
        return total.hexdigest()

    def sentences(self, split: str, longest: int, phrases: bool) -> Sentences:
        """Return a split, on request with its phrases.

        Raises UsageError for files that are missing or inconsistent, and for a sentence of more than ``longest``
        tokens, </s> included, which the encoder cannot read.
        """
        prefix = str(self.folder / f"{split}.{self.suffix}")
        tokens = data_utils.load_indexed_dataset(prefix, self.dictionary)
        if tokens is None:
            raise UsageError(f"{prefix}.idx: no such file; {PREPARE}")
        if max(tokens.sizes) > longest:
            line = int(np.argmax(tokens.sizes)) + 1
            raise UsageError(f"{split}: sentence {line} has {max(tokens.sizes)} tokens, the encoder reads {longest}")
        ends = read_word_ends(self.folder / f"{split}.words", tokens.sizes)
        data = PhraseData(f"{prefix}.phrases") if phrases else None
        if data is not None:
            data.check(tokens.sizes, self.phrase_levels)
        return Sentences(split, tokens, ends, data)

    def labels(self, split: str, task: str, sentences: Sentences) -> list[list[str]]:
        """Return the labels of each sentence, none where the task leaves it out. Raises UsageError, with line."""
        path = self.folder / f"{split}.{task}.labels"
        found = [line.split() for line in _lines(path, len(sentences))]
        for number, (labels, ends) in enumerate(zip(found, sentences.word_ends, strict=True), 1):
            if labels and len(labels) != (len(ends) if task in WORD_TASKS else 1):
                wanted = f"{len(ends)}, one a word" if task in WORD_TASKS else "1"
                raise UsageError(f"{path}:{number}: {len(labels)} labels, expected {wanted}, or none; prepare again")
        return found


def _lines(path: Path, count: int) -> list[str]:
    """Return the lines of a text file that must have ``count`` lines. Raises UsageError, with line."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}; {PREPARE}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: invalid UTF-8; prepare again") from None
    if lines.pop() or len(lines) != count:
        raise UsageError(
            f"{path}:{min(len(lines), count) + 1}: {len(lines)} lines for {count} sentences; prepare again"
        )
    return lines


def read_word_ends(path: Path, sizes: Sequence[int]) -> list[Tensor]:
    """Return the position, from 0, of the last subword of each word of each sentence.

    Args:
        path: a file with the number of subwords of each word, a line for each sentence.
        sizes: tokens of each sentence, </s> included.

    Raises UsageError, with line, for a file that does not fit.
    """
    found = []
    for number, (line, size) in enumerate(zip(_lines(path, len(sizes)), sizes, strict=True), 1):
        words = line.split()
        if not all(word.isdecimal() and int(word) > 0 for word in words):
            raise UsageError(f"{path}:{number}: not numbers of subwords: {line[:60]!r}; prepare again")
        ends = torch.tensor([int(word) for word in words], dtype=torch.long).cumsum(0) - 1
        if len(words) == 0 or int(ends[-1]) + 2 != size:
            total = int(ends[-1]) + 1 if words else 0
            raise UsageError(f"{path}:{number}: {total} subwords, the sentence has {size - 1}; prepare again")
        found.append(ends)
    return found


def number_labels(labels: Sequence[Sequence[str]], classes: Sequence[str]) -> Labelled:
    """Return labels as indices of classes; an unknown label is the class ``other`` if it exists, else len(classes)."""
    known = {label: number for number, label in enumerate(classes)}
    unknown = known.get(OTHER, len(classes))
    numbers = [number for number, found in enumerate(labels) if found]
    targets = [torch.tensor([known.get(label, unknown) for label in labels[number]]) for number in numbers]
    return Labelled(numbers, targets, len(labels) - len(numbers))


@dataclass(frozen=True)
class Batch:
    """Input of an encoder for B sentences of up to T tokens, padded on the left as fairseq pads sources.

    Args:
        tokens: B×T. lengths: (B,). phrases: lengths of the phrases, B×K×P, or None.
        word_ends: positions of the words' last subwords in the B·T tokens, sentence by sentence.
        rows: position of each sentence among the ``numbers`` given to :func:`batches`.
    """

    tokens: Tensor
    lengths: Tensor
    phrases: Tensor | None
    word_ends: Tensor
    rows: list[int]

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        return replace(
            self,
            tokens=self.tokens.to(device),
            lengths=self.lengths.to(device),
            phrases=None if self.phrases is None else self.phrases.to(device),
            word_ends=self.word_ends.to(device),
        )


def collate(sentences: Sentences, numbers: Sequence[int], rows: list[int], dictionary: Dictionary) -> Batch:
    """Return the batch of the sentences with these ``numbers``."""
    tokens = [sentences.tokens[number].long() for number in numbers]
    padded = data_utils.collate_tokens(tokens, dictionary.pad(), left_pad=True)
    width = padded.size(1)
    ends = [sentences.word_ends[number] + (b + 1) * width - len(tokens[b]) for b, number in enumerate(numbers)]
    phrases = sentences.phrases
    lengths = collate_phrases([phrases[number] for number in numbers], 0)[0] if phrases is not None else None
    sizes = torch.tensor([len(sentence) for sentence in tokens])
    return Batch(padded, sizes, lengths, word_ends=torch.cat(ends), rows=rows)


def batches(
    sentences: Sentences,
    numbers: Sequence[int],
    dictionary: Dictionary,
    max_tokens: int,
    *,
    generator: torch.Generator | None = None,
) -> Iterator[Batch]:
    """Yield batches of the sentences with these ``numbers``, grouped by length, of at most ``max_tokens`` with padding.

    A longer sentence is a batch of its own. With a generator, the batches and sentences of the same length are in
    random order; otherwise the order is that of the lengths.
    """
    order = torch.randperm(len(numbers), generator=generator) if generator else torch.arange(len(numbers))
    sizes = sentences.tokens.sizes
    rows = sorted(order.tolist(), key=lambda row: sizes[numbers[row]])
    groups: list[list[int]] = [[]]
    for row in rows:  # lengths ascend, so the last sentence of a group is the longest
        if groups[-1] and (len(groups[-1]) + 1) * sizes[numbers[row]] > max_tokens:
            groups.append([])
        groups[-1].append(row)
    shuffled = torch.randperm(len(groups), generator=generator).tolist() if generator else range(len(groups))
    for group in shuffled:
        yield collate(sentences, [numbers[row] for row in groups[group]], groups[group], dictionary)
