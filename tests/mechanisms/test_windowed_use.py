"""Differentiable windows in use: gradients, precision, dropout, memory, decoding step by step, bad sizes."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.core.attention import Frame
from fairseq_localattn.core.call import Call
from fairseq_localattn.mechanisms.windowed import AdditiveWindowAttention
from support.mechanisms import references
from support.mechanisms.inputs import DIM, HEADS, LargestTensor, random_case
from support.mechanisms.windowed import MODULES, every_module, make, run

# ---------------------------------------------------------------------------------------------- numerics


def test_a_small_mask_keeps_its_relative_precision() -> None:
    """Both pointers at the first key and attention at the last, all of them sharp: renormalised, fp32 is near fp64."""
    module = make("mw-renormalised")
    pointer, scores = torch.zeros(1, HEADS, 1, 10), torch.zeros(1, HEADS, 1, 10)
    pointer[..., 0], scores[..., -1] = 18, 18
    call = Call(Frame(1, 10), scores, q=scores, k=scores, v=scores)
    found = {}
    for dtype in (torch.float32, torch.float64):
        module.pointer_scores = lambda extra, dtype=dtype: torch.stack([pointer, pointer]).to(dtype)
        found[dtype] = module.reweight(scores.to(dtype).softmax(-1), call)
    assert found[torch.float64][..., 1:].max() > 1e-3, "nothing small is left to compare"
    torch.testing.assert_close(found[torch.float32].double(), found[torch.float64], rtol=1e-5, atol=0)


@pytest.mark.parametrize(("dtype", "size"), [(torch.float16, 1), (torch.bfloat16, 3)])
def test_the_soft_mask_is_computed_in_fp32(size: int, dtype: torch.dtype) -> None:
    """A flat pointer over 600 keys: running sums in half precision would stand still."""
    module = make("aw", size)
    mask = module.soft_mask(Frame(1, 600), torch.zeros(2, 1, HEADS, 1, 600, dtype=dtype))
    assert mask.dtype == torch.float32
    wanted = references.window_mask(torch.full((600,), 1 / 600).double(), torch.full((600,), 1 / 600).double(), size)
    torch.testing.assert_close(mask[0, 0, 0].double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kdim", [DIM, 3 * DIM])
def test_projections_begin_like_those_of_queries_and_keys(kdim: int) -> None:
    """Xavier's bounds, with fairseq's gain of 1/√2 where all channels are the same."""
    torch.manual_seed(1)
    module = AdditiveWindowAttention(DIM, HEADS, kdim=kdim, vdim=kdim, encoder_decoder_attention=True)
    for name, parameter in module.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            gain = 2**-0.5 if kdim == DIM else 1
            bound = gain * (6 / sum(parameter.shape)) ** 0.5
            assert 0.9 * bound < parameter.abs().max() <= bound, name


@every_module
def test_a_mask_that_closes_what_is_attended_to_stays_finite(name: str) -> None:
    """Pointers at the last key, attention at the first: the window there is 0, to rounding."""
    module = make(name)
    x, padding = random_case([6], left=False)
    x = x.float()
    last = torch.full((1, HEADS, 6, 6), -1000.0)
    last[..., -1] = 0
    weights = torch.zeros(1, HEADS, 6, 6)
    weights[..., 0] = 1
    module.pointer_scores = lambda extra: torch.stack([last, last])
    call = Call(Frame(6, 6), x, *module.project(x, x, x))
    if name == "aw":
        local = torch.zeros(1, HEADS, 6, 1)
        assert module.score_bias(call.with_extra({"local_q_proj": local, "local_k_proj": local})).isfinite().all()
    else:
        masked = module.reweight(weights, call)
        assert masked.isfinite().all() and (masked.abs() < 1e-5).all()


@pytest.mark.slow
def test_dropout_is_on_the_masked_weights() -> None:
    """The mean of many draws is the output without dropout, in MW as in AW."""
    for name in MODULES:
        module = make(name, dropout=0.3).double()
        x, padding = random_case([6], left=False)
        wanted, _ = run(module.eval(), x, x, padding, causal=False)
        module.train()
        many = x.expand(-1, 1500, -1)  # dropout is drawn for each sentence by itself
        draws, _ = run(module, many, many, padding.expand(1500, -1), causal=False)
        assert draws.std(1).min() > 0.01
        assert ((draws.mean(1, keepdim=True) - wanted).abs() < 5 * draws.std(1, keepdim=True) / 1500**0.5).all()


# ---------------------------------------------------------------------------------------------- memory, decoding


def test_the_mask_takes_no_product_with_a_matrix_of_keys() -> None:
    """Nothing that is made is larger than the scores of all pointers: the mask is linear in them."""
    module = make("aw", 5)
    x = torch.randn(256, 1, DIM, requires_grad=True)
    with LargestTensor() as mode:
        module(x, x, x, need_weights=False)[0].sum().backward()
    assert mode.size <= 3 * HEADS * 256 * 256
    calls = []
    pointers = torch.randn(2, 1, HEADS, 2, 500)
    with LargestTensor() as mode:
        calls.append(module.soft_mask(Frame(2, 500), pointers))
    assert mode.size <= 2 * HEADS * 2 * 500, "something of the size of keys × keys was made"


def test_segments_are_those_of_the_batch_at_hand() -> None:
    """Cached segments are not used for a batch with another padding, or with none."""
    module = make("aw", 3, self_attention=False, encoder_decoder_attention=True).double()
    x, _ = random_case([2] * 2, left=True, seed=3)
    for lengths in ([8, 5], [8, 4], [8, 8], [5, 8], [6, 5], [8, 5]):
        keys, padding = random_case(lengths, left=True)
        fresh = make("aw", 3, self_attention=False, encoder_decoder_attention=True).double()
        for _ in range(2):
            torch.testing.assert_close(
                run(module, x, keys, padding, causal=False)[0], run(fresh, x, keys, padding, causal=False)[0]
            )
    padding[0, :2] = True  # the same tensor, another batch
    fresh = make("aw", 3, self_attention=False, encoder_decoder_attention=True).double()
    torch.testing.assert_close(
        run(module, x, keys, padding, causal=False)[0], run(fresh, x, keys, padding, causal=False)[0]
    )


def test_bad_segments() -> None:
    for size in (0, -3):
        with pytest.raises(ValueError, match=f"segment must be 1 or more, not {size}"):
            make("aw", size)
    module, (x, padding) = make("aw", 2).double(), random_case([5], True)
    with pytest.raises(ValueError, match="segments need all keys at once"):
        run(module, x, x, padding, causal=True)
    state: dict = {}
    module(x[:1], x[:1], x[:1], incremental_state=state, need_weights=False)
    with pytest.raises(ValueError, match="segments need all keys at once"):
        module(x[1:2], x[1:2], x[1:2], incremental_state=state, need_weights=False)
