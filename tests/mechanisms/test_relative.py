"""Mechanisms of relative positions and sliding windows against loops, and what must hold of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.core.call import Call
from fairseq_localattn.grammar.torch_module import attention
from fairseq_localattn.kernels.masks import Frame, join_masks
from fairseq_localattn.mechanisms import relative
from fairseq_localattn.mechanisms.alibi import LinearBiasAttention, slopes_of
from fairseq_localattn.mechanisms.mixed import MixedAttention
from fairseq_localattn.mechanisms.relative import BucketedAttention, RelativeAttention, bucket_of
from fairseq_localattn.mechanisms.rotary import RotaryAttention
from fairseq_localattn.mechanisms.sinks import SinkAttention
from support.mechanisms import position_references as references
from support.mechanisms.checks import check
from support.mechanisms.inputs import (
    DIM,
    HEADS,
    LENGTHS,
    LargestTensor,
    future,
    random_case,
    take_long_ways,
)

cases = settings(max_examples=12, deadline=None)


def output(module: LocalAttention, x: Tensor, **kwargs: Any) -> Tensor:
    return module(x, x, x, need_weights=False, **kwargs)[0]


# ---------------------------------------------------------------------------------------------- equations


ways = pytest.mark.parametrize("cheap", [("cpu",), ()], ids=["steps", "few"])  # the second is that of a GPU


@ways
@cases
@given(LENGTHS, st.booleans(), st.booleans(), st.sampled_from([0, 1, 2, 16]), st.booleans(), st.booleans())
def test_shaw(
    cheap: tuple[str, ...], lengths: list[int], left: bool, causal: bool, distance: int, own: bool, values: bool
) -> None:
    module = RelativeAttention(DIM, HEADS, max_distance=distance, own_tables=own, values=values, self_attention=True)

    def reference(q: Tensor, k: Tensor, v: Tensor, exists: Tensor) -> Tensor:
        keys, values = module.key_positions, module.value_positions
        return references.shaw(q, k, v, exists, keys=keys, values=values, distance=distance, causal=causal)

    with patch.object(relative, "CHEAP_ON", cheap):
        check(module, reference, *random_case(lengths, left), causal)


@ways
@cases
@given(LENGTHS, st.booleans(), st.booleans(), st.sampled_from([(32, 128), (8, 5), (4, 3)]))
def test_t5(cheap: tuple[str, ...], lengths: list[int], left: bool, causal: bool, size: tuple[int, int]) -> None:
    buckets, farthest = size
    module = BucketedAttention(DIM, HEADS, buckets=buckets, max_distance=farthest, causal=causal, self_attention=True)

    def bias(h: int, i: int, j: int) -> Tensor:
        return module.position_bias[references.t5_bucket(j - i, buckets, farthest, not causal), h]

    with patch.object(relative, "CHEAP_ON", cheap):
        check(module, partial(references.biased, bias=bias, causal=causal), *random_case(lengths, left), causal)


@cases
@given(LENGTHS, st.booleans(), st.booleans())
def test_alibi(lengths: list[int], left: bool, causal: bool) -> None:
    module = LinearBiasAttention(DIM, HEADS, self_attention=True)

    def bias(h: int, i: int, j: int) -> Tensor:
        return torch.tensor(-(2 ** (-8 * (h + 1) / HEADS)) * abs(i - j), dtype=torch.float64)

    check(module, partial(references.biased, bias=bias, causal=causal), *random_case(lengths, left), causal)


@cases
@given(LENGTHS, st.booleans(), st.booleans(), st.sampled_from([10_000.0, 3.0]))
def test_rope(lengths: list[int], left: bool, causal: bool, base: float) -> None:
    module = RotaryAttention(DIM, 2, base=base, self_attention=True)
    check(module, partial(references.rope, base=base, causal=causal), *random_case(lengths, left), causal)


@settings(max_examples=25, deadline=None)
@given(LENGTHS, st.booleans(), st.booleans(), st.integers(1, 5), st.integers(0, 4), st.booleans())
def test_sinks(lengths: list[int], left: bool, causal: bool, window: int, count: int, long: bool) -> None:
    """``long`` forces the path of long sentences, a band and columns."""
    module = SinkAttention(DIM, HEADS, window=window, sinks=count, causal=causal, self_attention=True)
    reference = partial(references.sinks, window=window, count=count, causal=causal)
    with pytest.MonkeyPatch.context() as patch:
        if long:
            take_long_ways(patch)
        check(module, reference, *random_case(lengths, left), causal)


@cases
@given(LENGTHS, st.booleans())
def test_bi_direct_is_mma(lengths: list[int], left: bool) -> None:
    """Half of the heads see the past and half the future; the order of the heads is only one of their names."""
    module = MixedAttention(DIM, HEADS, head_kinds=["backward", "forward"] * 2, self_attention=True)
    check(module, references.bi_direct, *random_case(lengths, left), causal=False)


# ---------------------------------------------------------------------------------------------- what must hold


def test_a_shift_of_all_positions_changes_no_rotated_score() -> None:
    module = RotaryAttention(DIM, 2, self_attention=True).double()
    q, k = torch.randn(2, 1, 2, 7, DIM // 2, dtype=torch.double)
    scores = []
    for first in (0, 5, 1000):
        turned_q, turned_k = module.encode_positions(q, k, first)
        scores.append(turned_q @ turned_k.transpose(-1, -2))
    torch.testing.assert_close(scores[1], scores[0])
    torch.testing.assert_close(scores[2], scores[0])
    assert not torch.allclose(q @ k.transpose(-1, -2), scores[0])


def test_rotations_of_half_precision_are_exact_far_away() -> None:
    """Angles are not rounded to the precision of the queries: bf16 would not tell position 4000 from 4001."""
    module = RotaryAttention(8, 1, self_attention=True)
    x = torch.ones(1, 1, 2, 8)
    wanted = module.encode_positions(x, x, 4000)[0]
    got = module.encode_positions(x.bfloat16(), x.bfloat16(), 4000)[0]
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), wanted, rtol=0, atol=1e-2)
    assert (wanted[..., 0, 0] - wanted[..., 1, 0]).abs() > 0.1


def test_rotary_word_by_word() -> None:
    """Keys are cached rotated: steps and chunks equal the full causal pass, also with padding on the left."""
    module = RotaryAttention(DIM, 2, self_attention=True).double()
    x, padding = random_case([8, 5], left=True)
    full = output(module, x, key_padding_mask=padding, attn_mask=future(8))
    state: dict = {}
    for part in (slice(0, 3), slice(3, 4), slice(4, 8)):
        mask = None if part.stop - part.start == 1 else future(8)[part, : part.stop]
        options = {"key_padding_mask": padding[:, part], "incremental_state": state, "attn_mask": mask}
        real = ~padding.T[part]
        torch.testing.assert_close(output(module, x[part], **options)[real], full[part][real])


@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 5), (16, 20), (4, 100)])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets(buckets: int, farthest: int, bidirectional: bool) -> None:
    distances = torch.arange(-300, 301)
    found = bucket_of(distances, buckets, farthest, bidirectional).tolist()
    assert found == [references.t5_bucket(d, buckets, farthest, bidirectional) for d in distances.tolist()]
    assert set(found) <= set(range(buckets)) and found[0] == (buckets // 2 if bidirectional else buckets) - 1


def test_slopes() -> None:
    """The published ones of 8 heads, and for 12 heads those of 8 with every second of 16."""
    assert slopes_of(8).tolist() == [2**-h for h in range(1, 9)]
    wanted = [*slopes_of(8).tolist(), *(2 ** (-h / 2) for h in (1, 3, 5, 7))]
    torch.testing.assert_close(slopes_of(12), torch.tensor(wanted, dtype=torch.float64))
    assert slopes_of(1).tolist() == [2**-8] and len(slopes_of(5)) == 5


# ---------------------------------------------------------------------------------------------- cost, precision


@pytest.mark.parametrize("own", [False, True])
def test_no_tensor_of_queries_keys_and_channels(own: bool) -> None:
    """Nothing is larger than the distances of all queries, twice the scores; D is 16."""
    module = RelativeAttention(64, 4, own_tables=own, self_attention=True)
    x = torch.randn(256, 1, 64, requires_grad=True)
    with LargestTensor() as mode:
        output(module, x).sum().backward()
    assert mode.size <= 4 * 256 * (2 * 256 - 1)


def test_a_bias_beyond_fp16_stays_finite() -> None:
    """ALiBi's first head reaches -m·S; the nearest key's bias becomes 0 before half precision."""
    keys = 140_000
    q = torch.zeros(1, 8, 1, 8, dtype=torch.float16)
    bias = LinearBiasAttention(64, 8).score_bias(Call(Frame(1, keys, keys - 1), q, q=q, k=q, v=q))
    assert bias.dtype == torch.float32 and bias.min() < torch.finfo(torch.float16).min
    mask = join_masks(torch.arange(keys) > keys - 10, bias, torch.float16)
    assert mask is not None and mask[..., :-9].amax(-1).eq(0).all() and mask.isfinite().float().mean() > 0.9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(RelativeAttention, max_distance=-1), "relative position must be 0 or more, not -1"),
        (partial(BucketedAttention, buckets=3), "even and 4 or more, not 3"),
        (partial(BucketedAttention, buckets=2), "even and 4 or more, not 2"),
        (partial(BucketedAttention, max_distance=8), "must be above 8 with 32 buckets, not 8"),
        (partial(BucketedAttention, max_distance=16, causal=True), "must be above 16 with 32 buckets, not 16"),
        (partial(RotaryAttention, base=1.0), "base of the rotation's angles must be above 1, not 1"),
        (RotaryAttention, "pairs of channels, and each head has 3"),
        (partial(SinkAttention, window=0), "1 position or more, not 0"),
        (partial(SinkAttention, sinks=-1), "sinks must be 0 or more, not -1"),
    ],
)
def test_bad_sizes(make: Callable[..., LocalAttention], message: str) -> None:
    heads = 2 if "base" in getattr(make, "keywords", {}) else HEADS
    with pytest.raises(ValueError, match=message):
        make(DIM, heads)


@pytest.mark.parametrize("site", ["encoder", "decoder"])
@pytest.mark.parametrize("word", ["alibi", "t5"])
def test_a_view_of_the_bias_equals_the_bias(word: str, site: str) -> None:
    """Without padding no tensor H×T×S is made; with padding it is, and equal sentences have equal outputs."""
    module = attention(word, 16, 2, site=site, batch_first=True, dtype=torch.double).eval()
    x = torch.randn(2, 170, 16, dtype=torch.double)
    with torch.no_grad(), patch.object(type(module.attention), "score_bias", side_effect=AssertionError("H×T×S")):
        found = module(x, x, x, need_weights=False)[0]
    padding = torch.zeros(2, 170, dtype=torch.bool)
    padding[1, 160:] = True
    with torch.no_grad():
        wanted = module(x, x, x, key_padding_mask=padding, need_weights=False)[0]
    torch.testing.assert_close(found[0], wanted[0])
