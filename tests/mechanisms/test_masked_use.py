"""Mask attention (MAN) in use: the cost of a step, states, initial values, mistakes."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.mechanisms.masked import DynamicMaskAttention, StaticMaskAttention
from support.mechanisms.inputs import DIM, HEADS, LargestTensor
from support.mechanisms.masked import every_module, make


@every_module
def test_a_step_takes_time_linear_in_what_is_cached(name: str) -> None:
    """One word after 1,000 and after 2,000: the largest tensor that is made grows as they do."""

    def largest(length: int) -> int:
        module = make(name, causal=True)
        state: dict = {}
        x = torch.zeros(length + 1, 1, DIM)
        options = {"incremental_state": state, "need_weights": False}
        with torch.no_grad():
            module(x[:length], x[:length], x[:length], **options)
            with LargestTensor() as mode:
                module(x[length:], x[length:], x[length:], **options)
        return mode.size

    assert largest(2000) <= 2.1 * largest(1000)


@every_module
def test_state_dict_and_kind(name: str) -> None:
    """P has an entry for each distance from -max_distance, or 0 in the causal case, to max_distance."""
    added = {"query_mask.weight", "distance_mask", "head_mask"} if name == "dman" else set()
    module = make(name)
    assert set(module.state_dict()) == set(LocalAttention(DIM, HEADS).state_dict()) | added
    assert module.kind == name.removesuffix("-sqrt")
    for causal, most, size in ((False, 1024, 2049), (True, 1024, 1025), (False, 0, 1)):
        assert DynamicMaskAttention(DIM, HEADS, causal=causal, max_distance=most).distance_mask.shape == (size,)


def test_initial_masks() -> None:
    """P and U from N(0, 1), w Xavier, as in the authors' code."""
    torch.manual_seed(3)
    module = DynamicMaskAttention(512, 512, max_distance=10_000)
    for table in (module.distance_mask.detach(), module.head_mask.detach()):
        n = table.numel()
        assert table.mean().abs() < 4 / n**0.5
        assert (table.std() - 1).abs() < 4 / (2 * n) ** 0.5
        for bound, share in ((1, 0.6827), (2, 0.9545)):
            assert ((table.abs() < bound).float().mean() - share).abs() < 4 * (share * (1 - share) / n) ** 0.5
    w, bound = module.query_mask.weight, (6 / 513) ** 0.5
    assert 0.97 * bound < w.abs().max() <= bound
    assert (w.std() - bound / 3**0.5).abs() < 0.1 * bound


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (DynamicMaskAttention, {"max_distance": -1}, "distance.* 0 or more, not -1"),
        (StaticMaskAttention, {"boundary": -2}, "boundary.* 0 or more, not -2"),
        (LocalAttention, {"activation": "tanh"}, "activation 'tanh'.*none, relu, gelu"),
        (StaticMaskAttention, {"activation": "ReLU"}, "activation 'ReLU'.*none, relu, gelu"),
    ],
)
def test_bad_sizes_and_words(kind: type[LocalAttention], options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(DIM, HEADS, **options)
