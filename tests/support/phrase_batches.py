"""Phrases of sentences, pairs of sentences, and the task without its data."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.data import LanguagePairDataset
from torch import Tensor

from fairseq_localattn.phrases.dataset import Levels
from fairseq_localattn.tasks.translation_with_phrases import PhraseTranslationTask
from support.models import dictionary, tags


class TaskWithoutData(PhraseTranslationTask):
    """The task without its data folder."""

    def __init__(self) -> None:
        self.tag_dictionary, self.target_dict = tags(), dictionary()

    @property
    def target_dictionary(self) -> Any:
        return self.target_dict


def levels(*lengths: list[int]) -> Levels:
    """Return the levels of a sentence; the tag of each phrase is its length + 2."""
    return [(torch.tensor(level), torch.tensor(level) + 2) for level in lengths]


def pairs(source: list[Tensor], target: list[Tensor] | None) -> LanguagePairDataset:
    """Return fairseq's data set of sentence pairs."""
    sizes = [len(s) for s in source]
    more = {"tgt": target, "tgt_sizes": [len(t) for t in target], "tgt_dict": dictionary()} if target else {}
    return LanguagePairDataset(source, sizes, dictionary(), shuffle=False, **more)
