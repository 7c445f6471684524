"""The data of the probing tasks, as data-prep/prepare_probing.sh writes them: sentences, phrases, words and labels.

In the folder stand, beside what fairseq-preprocess writes of the text alone (``train.en-None.en.bin``) and its
phrases, ``{split}.words``, how many subwords each word has, and ``{split}.TASK.labels``, one label a sentence or one a
word, both line by line; an empty line of labels is a sentence that the task leaves out.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from torch import Tensor

from ...errors import UsageError
from ...phrases.dataset import PhraseData, collate_phrases
from .labels import OTHER, WORD_TASKS

SPLITS = ("train", "valid", "test")
PREPARE = "data-prep/prepare_probing.sh writes it"
_SOURCE = re.compile(r"train\.(.+-(.+)\.(.+))\.idx")
_CONTENTS = re.compile(r"(dict\..*\.txt|(train|valid|test)\..*\.(bin|idx|labels)|(train|valid|test)\.words)")


@dataclass(frozen=True)
class Sentences:
    """A split's sentences: subwords with </s>, the position of each word's last subword, phrases where needed."""

    split: str
    tokens: Any
    word_ends: list[Tensor]
    phrases: PhraseData | None

    def __len__(self) -> int:
        return len(self.word_ends)


@dataclass(frozen=True)
class Labelled:
    """The sentences that a task has labels for, by number, and their labels: one each, or one a word.

    Labels are numbers of classes; the number of classes itself stands for a label that training has not.
    """

    numbers: list[int]
    targets: list[Tensor]
    left_out: int

    @property
    def flat(self) -> Tensor:
        """All labels, one after the other."""
        return torch.cat(self.targets)


class ProbingData:
    """The folder of a preparation. Raises UsageError where it is none."""

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
        """Levels of the phrases beside the sentences; 0 where there are none."""
        path = self.folder / f"{self.lang}.phrases.json"
        return int(json.loads(path.read_text(encoding="utf-8"))["levels"]) if path.exists() else 0

    def digest(self) -> str:
        """A checksum of all that the folder holds for this purpose."""
        total = hashlib.sha256()
        for path in sorted(self.folder.iterdir()):
            if _CONTENTS.fullmatch(path.name):
                total.update(path.name.encode())
                total.update(path.read_bytes())
        return total.hexdigest()

    def sentences(self, split: str, longest: int, phrases: bool) -> Sentences:
        """A split, with its phrases on request. Raises UsageError where something is missing or does not fit.

        ``longest``: the most tokens, </s> included, that the encoder can read; a longer sentence is an error.
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
        """The labels of each sentence, none where the task leaves it out. Raises UsageError with file and line."""
        path = self.folder / f"{split}.{task}.labels"
        found = [line.split() for line in _lines(path, len(sentences))]
        for number, (labels, ends) in enumerate(zip(found, sentences.word_ends, strict=True), 1):
            if labels and len(labels) != (len(ends) if task in WORD_TASKS else 1):
                wanted = f"{len(ends)}, one a word" if task in WORD_TASKS else "1"
                raise UsageError(f"{path}:{number}: {len(labels)} labels, expected {wanted}, or none; prepare again")
        return found


def _lines(path: Path, count: int) -> list[str]:
    """The lines of a text file that must have ``count`` of them. Raises UsageError with file and line."""
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
    """The position, from 0, of the last subword of each word of each sentence.

    path: one line a sentence, the number of subwords of each word; sizes: tokens of each sentence, </s> included.
    Raises UsageError with file and line.
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
    """Labels as numbers of classes; a label that is no class is ``other`` if there is such, else len(classes)."""
    known = {label: number for number, label in enumerate(classes)}
    unknown = known.get(OTHER, len(classes))
    numbers = [number for number, found in enumerate(labels) if found]
    targets = [torch.tensor([known.get(label, unknown) for label in labels[number]]) for number in numbers]
    return Labelled(numbers, targets, len(labels) - len(numbers))


@dataclass(frozen=True)
class Batch:
    """Input of an encoder for B sentences of up to T tokens, padded on the left, as fairseq pads sources.

    tokens: B×T; lengths: B; phrases: B×K×P or None; word_ends: positions in the B·T tokens, sentence by sentence;
    rows: of each sentence in the order of :func:`batches`' argument.
    """

    tokens: Tensor
    lengths: Tensor
    phrases: Tensor | None
    word_ends: Tensor
    rows: list[int]

    def to(self, device: torch.device) -> Batch:
        phrases = None if self.phrases is None else self.phrases.to(device)
        return Batch(
            self.tokens.to(device), self.lengths.to(device), phrases, self.word_ends.to(device), self.rows
        )  # fmt: skip


def collate(sentences: Sentences, numbers: Sequence[int], rows: list[int], dictionary: Dictionary) -> Batch:
    """The batch of the sentences with these ``numbers``."""
    tokens = [sentences.tokens[number].long() for number in numbers]
    padded = data_utils.collate_tokens(tokens, dictionary.pad(), left_pad=True)
    width = padded.size(1)
    ends = [sentences.word_ends[number] + (b + 1) * width - len(tokens[b]) for b, number in enumerate(numbers)]
    phrases = sentences.phrases
    lengths = collate_phrases([phrases[number] for number in numbers], 0)[0] if phrases is not None else None
    return Batch(padded, torch.tensor([len(one) for one in tokens]), lengths, torch.cat(ends), rows)


def batches(
    sentences: Sentences,
    numbers: Sequence[int],
    dictionary: Dictionary,
    max_tokens: int,
    generator: torch.Generator | None = None,
) -> Iterator[Batch]:
    """Batches of the sentences with these ``numbers``, of similar length, of at most ``max_tokens`` with padding.

    A sentence that is longer is a batch of its own. With ``generator`` sentences of the same length and the batches are
    in random order, else in that of their length.
    """
    order = torch.randperm(len(numbers), generator=generator) if generator else torch.arange(len(numbers))
    sizes = sentences.tokens.sizes
    rows = sorted(order.tolist(), key=lambda row: sizes[numbers[row]])
    groups: list[list[int]] = [[]]
    for row in rows:  # ascending, so that the last one is the longest
        if groups[-1] and (len(groups[-1]) + 1) * sizes[numbers[row]] > max_tokens:
            groups.append([])
        groups[-1].append(row)
    shuffled = torch.randperm(len(groups), generator=generator).tolist() if generator else range(len(groups))
    for group in shuffled:
        yield collate(sentences, [numbers[row] for row in groups[group]], groups[group], dictionary)
