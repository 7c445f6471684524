"""Sentence pairs that heat maps show: of a split or given as text, and their tokens as labels."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from fairseq import utils
from fairseq.data import Dictionary
from torch import Tensor

from ...errors import UsageError
from ...phrases.dataset import collate_phrases
from ..evaluation import Trained


@dataclass(frozen=True)
class Pair:
    """A sentence pair as indices of the dictionaries, with the end of sentence.

    Args:
        source: (S,). target: (T,).
        phrases: lengths of the source's phrases, 1×K×P, where the data have them (see phrases/dataset.py).
    """

    source: Tensor
    target: Tensor
    phrases: Tensor | None = None

    @property
    def read(self) -> Tensor:
        """The decoder's input, (T,): the target with the end-of-sentence symbol moved to the front."""
        return torch.cat([self.target[-1:], self.target[:-1]])


def encode(text: str, dictionary: Dictionary, flag: str) -> Tensor:
    """Return the indices of a text's tokens, which spaces separate, and of the end of sentence.

    Raises UsageError, naming ``flag``, for a text without tokens, for tokens that the dictionary lacks and for special
    symbols other than ``<unk>``.
    """
    words = text.split()
    if not words:
        raise UsageError(f"{flag}: the text is empty")
    special = {dictionary.bos(), dictionary.pad(), dictionary.eos()}
    wrong = [word for word in dict.fromkeys(words) if word not in dictionary or dictionary.index(word) in special]
    if wrong:
        raise UsageError(
            f"{flag}: not in the dictionary: {' '.join(wrong)}; give the text in the sub-words of the training data"
            " (the end of sentence is added to it)"
        )
    return torch.tensor([*map(dictionary.index, words), dictionary.eos()])


def read_pair(trained: Trained, args: argparse.Namespace) -> Pair:
    """Return the pair that the arguments name. Raises UsageError if it does not exist or the model cannot read it."""
    task = trained.task
    if args.sentence is None:
        source = encode(args.source, task.source_dictionary, "--source")
        pair = Pair(source, encode(args.target, task.target_dictionary, "--target"))
    else:
        split = args.gen_subset or "test"
        if split not in task.datasets:
            task.load_dataset(split)
        dataset = task.dataset(split)
        if not 0 <= args.sentence < len(dataset):
            last = len(dataset) - 1
            raise UsageError(f"--sentence {args.sentence}: {split} has the sentences 0 to {last}, as fairseq counts")
        found = dataset[args.sentence]
        if found["target"] is None:
            raise UsageError(f"--sentence {args.sentence}: {split} has no target side; give --source and --target")
        phrases = None
        if "phrases" in found:
            phrases, _ = collate_phrases([found["phrases"]], no_tag=0)
        # Sentences in buckets (--num-batch-buckets) are padded.
        pad = task.source_dictionary.pad()
        source, target = (side.long()[side != pad] for side in (found["source"], found["target"]))
        pair = Pair(source, target, phrases)
    limits = utils.resolve_max_positions(task.max_positions(), trained.model.max_positions())
    for name, tokens, limit in zip(("source", "target"), (pair.source, pair.target), limits, strict=True):
        if len(tokens) > limit:
            raise UsageError(f"the {name} has {len(tokens)} tokens, and {trained.architecture} reads at most {limit}")
    return pair


def tokens_of(trained: Trained, pair: Pair, site: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels of the queries and of the keys at a site."""
    from_source, from_target = trained.task.source_dictionary, trained.task.target_dictionary
    source = tuple(from_source[n] for n in pair.source.tolist())
    target = tuple(from_target[n] for n in pair.target.tolist())
    read = tuple(from_target[n] for n in pair.read.tolist())
    return {"encoder": (source, source), "decoder": (target, read), "cross": (target, source)}[site]
