"""Mask attention (MAN) in use: causality, decoding step by step, explicit weights, states, initial values, mistakes."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.mechanisms.masked import DynamicMaskAttention, StaticMaskAttention
from support.mechanisms.inputs import DIM, HEADS, LargestTensor, cut_into_blocks, future, random_case
from support.mechanisms.masked import every_module, every_path, every_side, expected, make, outcome, run


@every_module
def test_no_position_sees_the_future(name: str) -> None:
    """With either kind of ``attn_mask``, and with as many sentences as positions, which the authors' code confuses."""
    module = make(name, causal=True).double()
    x, _ = random_case([6] * 6, left=False)
    before, _ = run(module, x, causal=True)
    boolean, _ = module(x, x, x, attn_mask=future(6).bool(), need_weights=False)
    torch.testing.assert_close(boolean, before)
    for p in range(6):
        changed = x.clone()
        changed[p] += 1
        after, _ = run(module, changed, causal=True)
        torch.testing.assert_close(after[:p], before[:p], rtol=0, atol=1e-12)
        assert (after[p] - before[p]).abs().amax(-1).min() > 1e-3


@every_module
def test_a_query_that_may_see_no_key_stays_finite(name: str) -> None:
    """A whole row of -inf in ``attn_mask``."""
    module = make(name)
    x = torch.randn(5, 2, DIM)
    mask = torch.zeros(5, 5)
    mask[3] = float("-inf")
    free, _ = module(x, x, x, need_weights=False)
    for weights in (True, False):
        out, _ = module(x, x, x, attn_mask=mask, need_weights=weights)
        assert out.isfinite().all()
        torch.testing.assert_close(out[:3], free[:3])


@every_path
@every_side
@every_module
def test_step_by_step_equals_the_full_pass(name: str, left: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Token by token, past the greatest distance and past lengths at which √L/2 changes; then in two chunks."""
    cut_into_blocks(monkeypatch, block)
    module = make(name, causal=True).double()
    x, padding = random_case([18, 7, 2, 16], left)
    full, _ = run(module, x, padding, causal=True)
    real = (~padding).T
    for cuts in (range(19), (0, 5, 18)):
        state: dict = {}
        outputs = []
        for a, b in pairwise(cuts):
            chunk, now = x[a:b], padding[:, a:b]
            options = {"key_padding_mask": now if now.any() else None, "incremental_state": state}
            mask = future(18)[a:b, :b] if b - a > 1 else None
            outputs.append(module(chunk, chunk, chunk, **options, attn_mask=mask, need_weights=False)[0])
        torch.testing.assert_close(torch.cat(outputs)[real], full[real])


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


# ---------------------------------------------------------------------------------------------- weights, repeatability


@every_path
@pytest.mark.parametrize("causal", [False, True])
@every_module
def test_explicit_weights(name: str, causal: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """need_weights: the same output; S_M of Eq. 4 averaged over heads, whose rows sum to one."""
    cut_into_blocks(monkeypatch, block)
    module = make(name, causal, activation="relu").double()
    x, padding = random_case([9, 5], left=not causal)
    real = (~padding).T
    fused, none = run(module, x, padding, causal)
    explicit, mean = run(module, x, padding, causal, weights=True)
    _, by_head = module(
        x, x, x, key_padding_mask=padding, attn_mask=future(9) if causal else None, need_head_weights=True
    )
    assert none is None and mean.shape == (2, 9, 9) and by_head.shape == (HEADS, 2, 9, 9)
    torch.testing.assert_close(explicit[real], fused[real])
    torch.testing.assert_close(mean[real.T], expected(module, x, padding, causal)[1][real.T])
    torch.testing.assert_close(by_head.mean(0), mean)
    rows = by_head[:, ~padding]
    torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]))


@every_module
def test_two_runs_are_the_same_bit_by_bit(name: str) -> None:
    """Forward and backward in fp32, longer than a block."""
    module = make(name)
    x, padding = random_case([150, 90, 1], left=True)
    results = []
    for _ in range(2):
        inputs = x.float().requires_grad_()
        results.append(outcome(run(module, inputs, padding)[0], inputs, module, padding))
    assert all(torch.equal(results[0][key], results[1][key]) for key in results[0])


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
