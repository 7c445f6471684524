"""Inputs of every size in every precision: outputs and gradients are finite wherever fairseq's are."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from fairseq_localattn.models.architectures import baseline_of
from support.models import CASES, batch, build, case, dictionary, enlarge, loss

FACTORS = [10.0**n for n in range(-4, 5)]
TYPES = [torch.float32, torch.bfloat16, torch.float16]
SENTENCES: dict[str, tuple[list[int], list[int]]] = {
    "padding": ([9, 1, 4, 7], [6, 2, 9, 1]),
    "an empty one": ([5, 3, 8], [5, 4, 6]),
    "one word": ([1], [1]),
    "one sentence": ([30], [12]),
    "only padding": ([3], [3]),
}
TRIALS = list(itertools.product(FACTORS, TYPES, SENTENCES))
# Each case begins elsewhere, so that a trial of each covers them all.
SHUFFLED = {name: TRIALS[at * 7 % len(TRIALS) :] + TRIALS[: at * 7 % len(TRIALS)] for at, name in enumerate(CASES)}
EMPTY = ("an empty one", "only padding")


def sample_of(sentences: str, hidden: bool) -> dict[str, Any]:
    """Return a batch; the first sentence is all padding where the name says so, if ``hidden``."""
    sample = batch(*SENTENCES[sentences])
    if hidden and sentences in EMPTY:
        sample["net_input"]["src_tokens"][0] = dictionary().pad()
    return sample


def not_finite(model: nn.Module, sample: dict[str, Any], trial: tuple[float, torch.dtype, str]) -> list[str]:
    """Return what is not finite: the loss, or the gradients by name."""
    factor, dtype, _ = trial
    model = model.to(dtype)
    enlarge(model, factor)
    found = loss(model, sample)
    if not found.isfinite():
        return ["loss"]
    found.backward()
    return [name for name, p in model.named_parameters() if p.grad is not None and not p.grad.isfinite().all()]


@cache
def fairseqs(arch: str, trial: tuple[float, torch.dtype, str]) -> list[str]:
    """Return what is not finite in fairseq's Transformer, which gives no weights and sees no empty sentence."""
    sample = sample_of(trial[2], hidden=False)
    sample["net_input"]["alignment_layer"] = -1
    return not_finite(build(arch).eval(), sample, trial)


@pytest.mark.parametrize(
    "many",
    [
        slice(0, 1),
        pytest.param(slice(45, 91, 45), marks=pytest.mark.slow),
        pytest.param(slice(1, None), marks=pytest.mark.attack),
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_finite(name: str, many: slice) -> None:
    """The loss and all gradients are finite where fairseq's are.

    The loss alone counts for an empty sentence in fp16: fairseq's is NaN there, and layer norms of zeros multiply its
    gradients by 300 each.
    """
    for trial in SHUFFLED[name][many]:
        factor, dtype, sentences = trial
        theirs = fairseqs(baseline_of(CASES[name][0]), trial)
        if theirs != ["loss"]:
            ours = not_finite(case(name), sample_of(sentences, hidden=True), trial)
            loss_alone = theirs or (sentences in EMPTY and dtype == torch.float16 and factor > 1)
            assert not ours or (loss_alone and ours != ["loss"]), f"{trial}: {ours} not finite; fairseq's: {theirs}"


def test_fairseqs_own_are_finite_nearly_everywhere() -> None:
    """What the comparison is with: fairseq's Transformer is finite in all precisions up to 100 times its inputs."""
    arch = baseline_of("transformer_csan_tiny")
    assert not [trial for trial in TRIALS[::4] if trial[0] <= 100 and fairseqs(arch, trial)]
