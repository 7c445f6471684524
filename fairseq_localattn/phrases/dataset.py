"""Data sets of phrases: reading them, and collating them with the source sentences of a batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import BaseWrapperDataset, ConcatDataset, Dictionary, FairseqDataset, LanguagePairDataset, data_utils
from torch import Tensor

from ..errors import UsageError
from .store import MOST_LEVELS, unpack
from .subwords import CONVENTIONS

#: Lengths and tags of the phrases of each level, for one sentence.
Levels = list[tuple[Tensor, Tensor]]
HINT = "python -m fairseq_localattn.phrases.binarize writes them"


class PhraseData(torch.utils.data.Dataset):
    """The phrases of one indexed data set, ``<prefix>.bin`` and ``<prefix>.idx``, memory-mapped.

    An item is the levels of a sentence. Raises UsageError where the files are missing or damaged.
    """

    def __init__(self, prefix: str | Path) -> None:
        self.prefix = str(prefix)
        packed = data_utils.load_indexed_dataset(self.prefix, None, dataset_impl="mmap")
        if packed is None:
            raise UsageError(f"{self.prefix}.idx: no phrases beside the source: {HINT}")
        self.packed = packed

    def __len__(self) -> int:
        return len(self.packed)

    def __getitem__(self, index: int) -> Levels:
        try:
            return levels_of(self.packed[index])
        except ValueError as error:
            raise UsageError(f"{self.prefix}.bin: sentence {index + 1}: {error}; {HINT}") from None

    @property
    def sizes(self) -> np.ndarray:
        """Size of each packed item; read by fairseq's ConcatDataset."""
        return self.packed.sizes

    def subwords_and_levels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of subwords without </s>, and of levels, of each sentence: the first numbers of an item."""
        starts = np.cumsum(self.packed.sizes) - self.packed.sizes
        numbers = np.memmap(f"{self.prefix}.bin", dtype=np.int32, mode="r")
        return numbers[starts], numbers[starts + 1]

    def check(self, sizes: np.ndarray, levels: int) -> None:
        """Raise UsageError unless the sentences have ``sizes`` tokens, </s> included, and ``levels`` levels."""
        if len(self) != len(sizes):
            raise UsageError(f"{self.prefix}.idx: phrases of {len(self)} sentences, and the source has {len(sizes)}")
        if (self.sizes < 3).any():
            first = int(np.argmax(self.sizes < 3))
            raise UsageError(f"{self.prefix}.idx: sentence {first + 1} has no packed phrases: other data; {HINT}")
        subwords, depths = self.subwords_and_levels()
        if (subwords != sizes - 1).any():
            first = int(np.argmax(subwords != sizes - 1))
            raise UsageError(
                f"{self.prefix}.idx: sentence {first + 1} has phrases for {subwords[first]} subwords, and the source "
                f"has {sizes[first] - 1}: the phrases are not of this text; {HINT}"
            )
        if (depths != levels).any():
            first = int(np.argmax(depths != levels))
            raise UsageError(
                f"{self.prefix}.idx: sentence {first + 1} has phrases on {depths[first]} levels, and not on {levels} "
                f"as the folder's settings say; {HINT}"
            )


def read_settings(folder: Path, lang: str) -> tuple[int, str]:
    """Return the number of levels of a language's phrases, and the convention of subwords.

    Raises UsageError where the file of settings is missing or damaged.
    """
    path = folder / f"{lang}.phrases.json"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        levels, subwords = int(values["levels"]), str(values["subwords"])
    except FileNotFoundError:
        raise UsageError(f"{path}: missing: {folder} has no phrases of its {lang} side; {HINT}") from None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise UsageError(f"{path}: damaged ({type(error).__name__}: {error}); {HINT}") from None
    if not 1 <= levels <= MOST_LEVELS or subwords not in CONVENTIONS:
        raise UsageError(f"{path}: damaged: {levels} levels, subwords {subwords!r}; {HINT}")
    return levels, subwords


def levels_of(packed: Any) -> Levels:
    """Return the levels of one packed sentence (see store.py)."""
    _, levels = unpack(packed)
    return [(torch.as_tensor(lengths).long(), torch.as_tensor(tags).long()) for lengths, tags in levels]


def collate_phrases(sentences: Sequence[Levels], no_tag: int, types: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the lengths and the tags of the phrases of B sentences, each B×K×P for K levels.

    After a sentence's phrases comes </s>, a phrase of length 1; then the length is 0. The tag is ``no_tag`` for </s>,
    for phrases without a tag and where there is no phrase. Raises UsageError for a tag not below ``types``, the number
    of tags.
    """
    levels = len(sentences[0])
    count = 1 + max(len(lengths) for sentence in sentences for lengths, _ in sentence)
    shape = len(sentences), levels, count
    all_lengths, all_tags = torch.zeros(shape, dtype=torch.long), torch.full(shape, no_tag)
    for b, sentence in enumerate(sentences):
        for k, (lengths, tags) in enumerate(sentence):
            all_lengths[b, k, : len(lengths)] = lengths
            all_lengths[b, k, len(lengths)] = 1
            all_tags[b, k, : len(tags)] = tags
    if types is not None and int(all_tags.max()) >= types:
        raise UsageError(f"a phrase has the tag {int(all_tags.max())} of {types}: another dictionary's; {HINT}")
    return all_lengths, all_tags


class PhrasePairDataset(BaseWrapperDataset):
    """fairseq's sentence pairs with the phrases of the source.

    A batch of fairseq gets ``net_input.src_phrases`` (lengths, B×K×P) and ``phrase_tags`` (B×K×P) in addition; see
    :func:`collate_phrases`.
    """

    def __init__(
        self, pairs: LanguagePairDataset, phrases: Sequence[Levels] | FairseqDataset, tags: Dictionary
    ) -> None:
        super().__init__(pairs)
        self.phrases, self.tags = phrases, tags

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {**self.dataset[index], "phrases": self.phrases[index]}

    def collater(self, samples: list[dict[str, Any]], pad_to_length: dict[str, int] | None = None) -> dict[str, Any]:
        """Return fairseq's batch, whose rows it sorts by length, with the phrases in the same order."""
        batch = self.dataset.collater(samples, pad_to_length=pad_to_length)
        if batch:
            by_id = {sample["id"]: sample["phrases"] for sample in samples}
            lengths, tags = collate_phrases(
                [by_id[int(number)] for number in batch["id"]], self.tags.pad(), len(self.tags)
            )
            batch["net_input"]["src_phrases"], batch["phrase_tags"] = lengths, tags
        return batch

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        return self.dataset.num_tokens_vec(indices)


def join_phrases(parts: list[PhraseData], primary: int = 1) -> Any:
    """Return the phrases of several data sets, concatenated as the sources: the first ``primary`` times (-1: once)."""
    times = [1 if primary < 0 else primary] + [1] * (len(parts) - 1)
    return parts[0] if len(parts) == 1 else ConcatDataset(parts, times)
