"""The mechanisms against loops written from the papers' equations: outputs, every gradient, masks, bad sizes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_localattn.core import banded
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.mechanisms.alibi import LinearBiasAttention
from fairseq_localattn.mechanisms.convolutional import ConvolutionalAttention
from fairseq_localattn.mechanisms.gaussian import GaussianAttention
from fairseq_localattn.mechanisms.masked import DynamicMaskAttention, StaticMaskAttention
from fairseq_localattn.mechanisms.mixed import MixedAttention, parse_head_mix
from fairseq_localattn.mechanisms.relative import BucketedAttention, RelativeAttention
from fairseq_localattn.mechanisms.sinks import SinkAttention
from support.mechanisms import references
from support.mechanisms.checks import check
from support.mechanisms.inputs import (
    DIM,
    HEADS,
    LENGTHS,
    LargestTensor,
    cut_into_blocks,
    future,
    random_case,
    take_long_ways,
)

KINDS = ["global", "local", "forward", "backward"]


@settings(max_examples=12, deadline=None)
@given(LENGTHS, st.booleans(), st.booleans(), st.sampled_from([1, 3, 5, 11, 25]), st.sampled_from([1, 3]))
def test_csan_equals_equations(lengths: list[int], left: bool, causal: bool, window: int, head_span: int) -> None:
    module = ConvolutionalAttention(DIM, HEADS, window=window, head_span=head_span, self_attention=True)
    reference = partial(_csan, window=window, head_span=head_span, causal=causal)
    check(module, reference, *random_case(lengths, left), causal)


@settings(max_examples=15, deadline=None)
@given(LENGTHS, st.booleans(), st.booleans(), st.sampled_from([1, 3, 5, 7, 9, 25]), st.sampled_from([1, 3]))
def test_csan_in_several_blocks(lengths: list[int], left: bool, causal: bool, window: int, head_span: int) -> None:
    """The blocks of long sentences, on short ones: of 3 queries, or of half a window."""
    module = ConvolutionalAttention(DIM, HEADS, window=window, head_span=head_span, self_attention=True)
    reference = partial(_csan, window=window, head_span=head_span, causal=causal)
    with pytest.MonkeyPatch.context() as patch:
        cut_into_blocks(patch, 3)
        check(module, reference, *random_case(lengths, left), causal)


def _csan(q: Tensor, k: Tensor, v: Tensor, exists: Tensor, **kwargs: object) -> Tensor:
    return references.csan(q, k, v, exists=exists, **kwargs)  # type: ignore[arg-type]


MIXES = ["global,local,forward,backward", "global:1,local:3", "forward:2,backward:2", "local", "backward:1,global:3"]


@settings(max_examples=12, deadline=None)
@given(LENGTHS, st.booleans(), st.booleans(), st.sampled_from(MIXES), st.integers(1, 4), st.booleans())
def test_mma_equals_equations(lengths: list[int], left: bool, causal: bool, mix: str, w: int, long: bool) -> None:
    """``long`` forces the path of long sentences, where the local heads are computed in their band."""
    kinds = parse_head_mix(mix, HEADS)
    module = MixedAttention(DIM, HEADS, head_kinds=kinds, window=w, self_attention=True)

    def reference(q: Tensor, k: Tensor, v: Tensor, exists: Tensor) -> Tensor:
        return references.mma(q, k, v, list(kinds), w=w, exists=exists, causal=causal)

    with pytest.MonkeyPatch.context() as patch:
        if long:
            take_long_ways(patch)
        check(module, reference, *random_case(lengths, left), causal)


MODULES: dict[str, Callable[..., LocalAttention]] = {
    "ordinary": LocalAttention,
    "csan-1d": partial(ConvolutionalAttention, window=3, head_span=1),
    "csan-2d": partial(ConvolutionalAttention, window=3, head_span=3),
    "mma": partial(MixedAttention, head_kinds=KINDS),
    "dman": partial(DynamicMaskAttention, max_distance=3),
    "sman": partial(StaticMaskAttention, boundary=1),
    "relpos": partial(RelativeAttention, max_distance=2),
    "relpos-own": partial(RelativeAttention, max_distance=3, own_tables=True),
    "t5bias": partial(BucketedAttention, buckets=8, max_distance=5),
    "alibi": LinearBiasAttention,
    "sinks": partial(SinkAttention, window=2, sinks=1),
    "gauss": partial(GaussianAttention, causal=True),
}


@pytest.mark.parametrize("block", [2, 64])
@pytest.mark.parametrize("name", MODULES)
def test_explicit_weights_belong_to_the_output(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """need_weights: the same output as the fused path; weights that sum to one and are zero where nothing is seen."""
    cut_into_blocks(monkeypatch, block)
    module = MODULES[name](DIM, HEADS, self_attention=True).double()
    x, padding = random_case([7, 5], left=True)
    fused, none = module(x, x, x, key_padding_mask=padding, need_weights=False)
    explicit, mean = module(x, x, x, key_padding_mask=padding, need_weights=True)
    _, by_head = module(x, x, x, key_padding_mask=padding, need_head_weights=True)
    real = (~padding).T
    assert none is None
    torch.testing.assert_close(fused[real], explicit[real])
    assert mean.shape == (2, 7, 7) and by_head.shape == (HEADS, 2, 7, 7)
    torch.testing.assert_close(by_head.mean(0), mean)
    rows = by_head[:, ~padding]  # H × real queries × S
    torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]))
    assert (by_head[:, 1, 2:, :2] == 0).all(), "weight on padding"
    if name.startswith("csan"):
        far = (torch.arange(7)[:, None] - torch.arange(7)).abs() > 1
        assert (by_head[:, 0][:, far] == 0).all(), "weight outside the window"


@pytest.mark.slow
@pytest.mark.parametrize("block", [2, 64])
@pytest.mark.parametrize("name", MODULES)
def test_dropout_is_on_the_weights(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In training the mean of many draws is the output without dropout; in evaluation there is no dropout."""
    cut_into_blocks(monkeypatch, block)
    monkeypatch.setattr(banded, "BANDED_FROM", block)
    torch.manual_seed(1)
    module = MODULES[name](DIM, HEADS, dropout=0.3, self_attention=True).double()
    x, _ = random_case([6], left=False)
    wanted, _ = module.eval()(x, x, x, need_weights=False)
    module.train()
    many = x.expand(-1, 1500, -1)  # dropout is drawn for each sentence by itself
    for need_weights in (False, True):
        draws = module(many, many, many, need_weights=need_weights)[0]
        assert draws.std(1).min() > 0.01, "some output does not vary"
        standard_error = draws.std(1, keepdim=True) / 1500**0.5
        assert ((draws.mean(1, keepdim=True) - wanted).abs() < 5 * standard_error).all()


@pytest.mark.parametrize(
    "make, times",
    [
        (partial(ConvolutionalAttention, window=11, head_span=3), 2.1),
        (partial(StaticMaskAttention, boundary=4), 2.1),
        (partial(SinkAttention, window=8), 2.1),
        (partial(StaticMaskAttention, boundary=None), 3.0),  # its window grows with √T, so T·√T: 2.8 times
    ],
    ids=["csan", "sman", "sinks", "sman-sqrt"],
)
def test_a_window_makes_no_quadratic_tensor(make: Callable[..., LocalAttention], times: float) -> None:
    """Every tensor that a forward and backward pass makes grows linearly with the length and with the window."""

    def largest(length: int) -> int:
        module = make(DIM, HEADS, self_attention=True)
        x = torch.randn(length, 1, DIM, requires_grad=True)
        with LargestTensor() as mode:
            module(x, x, x, need_weights=False)[0].sum().backward()
        return mode.size

    assert largest(4096) <= times * largest(2048)  # T·T would be 4 times as much


def test_a_long_causal_chunk_after_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries that start behind cached keys, in blocks: equal to the same rows of the full pass."""
    cut_into_blocks(monkeypatch, 3)
    module = ConvolutionalAttention(DIM, HEADS, window=5, head_span=3, self_attention=True).double()
    x, _ = random_case([14], left=False)
    mask = future(14)
    full, _ = module(x, x, x, attn_mask=mask, need_weights=False)
    state: dict = {}
    first, _ = module(x[:4], x[:4], x[:4], incremental_state=state, attn_mask=mask[:4, :4], need_weights=False)
    rest, _ = module(x[4:], x[4:], x[4:], incremental_state=state, attn_mask=mask[4:], need_weights=False)
    torch.testing.assert_close(torch.cat([first, rest]), full)


BAD_MIXES = ["global:2,local:1", "global:5", "global,local,forward", "globl:4", "global:x,local:1", "global:0", ""]


@pytest.mark.parametrize("mix", BAD_MIXES)
def test_bad_head_mixes(mix: str) -> None:
    with pytest.raises(ValueError, match="head"):
        parse_head_mix(mix, HEADS)


def test_head_mixes_of_table_4() -> None:
    assert parse_head_mix("global,local,forward,backward", 8) == tuple(k for k in KINDS for _ in range(2))
    assert parse_head_mix("global:3,forward:1", 4) == ("global", "global", "global", "forward")


@pytest.mark.parametrize("sizes", [{"window": 10}, {"window": 0}, {"window": -3}, {"head_span": 2}, {"head_span": 5}])
def test_bad_areas(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="odd|heads"):
        ConvolutionalAttention(DIM, HEADS, **sizes)


def test_bad_mixed_attention() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        MixedAttention(DIM, HEADS, head_kinds=KINDS, window=0)
    with pytest.raises(ValueError, match="3 kinds"):
        MixedAttention(DIM, HEADS, head_kinds=KINDS[:3])
    with pytest.raises(ValueError, match="divide"):
        LocalAttention(10, 4)
