"""What must hold of relative positions: rotations, buckets, slopes, and biases far away."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

from fairseq_localattn.core.call import Call
from fairseq_localattn.grammar.torch_module import attention
from fairseq_localattn.kernels.masks import Frame, join_masks
from fairseq_localattn.mechanisms.alibi import LinearBiasAttention, slopes_of
from fairseq_localattn.mechanisms.relative import bucket_of
from fairseq_localattn.mechanisms.rotary import RotaryAttention
from support.mechanisms.references import t5_bucket


def test_rotations_of_half_precision_are_exact_far_away() -> None:
    """Angles are not rounded to the precision of the queries: bf16 would not tell position 4000 from 4001."""
    module = RotaryAttention(8, 1, self_attention=True)
    x = torch.ones(1, 1, 2, 8)
    wanted = module.encode_positions(x, x, 4000)[0]
    got = module.encode_positions(x.bfloat16(), x.bfloat16(), 4000)[0]
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), wanted, rtol=0, atol=1e-2)
    assert (wanted[..., 0, 0] - wanted[..., 1, 0]).abs() > 0.1


@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 5), (16, 20), (4, 100)])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets(buckets: int, farthest: int, bidirectional: bool) -> None:
    distances = torch.arange(-300, 301)
    found = bucket_of(distances, buckets, farthest, bidirectional).tolist()
    assert found == [t5_bucket(d, buckets, farthest, bidirectional) for d in distances.tolist()]
    assert set(found) <= set(range(buckets)) and found[0] == (buckets // 2 if bidirectional else buckets) - 1


def test_slopes() -> None:
    """The published ones of 8 heads, and for 12 heads those of 8 with every second of 16."""
    assert slopes_of(8).tolist() == [2**-h for h in range(1, 9)]
    wanted = [*slopes_of(8).tolist(), *(2 ** (-h / 2) for h in (1, 3, 5, 7))]
    torch.testing.assert_close(slopes_of(12), torch.tensor(wanted, dtype=torch.float64))
    assert slopes_of(1).tolist() == [2**-8] and len(slopes_of(5)) == 5


def test_a_bias_beyond_fp16_stays_finite() -> None:
    """ALiBi's first head reaches -m·S; the nearest key's bias becomes 0 before half precision."""
    keys = 140_000
    q = torch.zeros(1, 8, 1, 8, dtype=torch.float16)
    bias = LinearBiasAttention(64, 8).score_bias(Call(Frame(1, keys, keys - 1), q, q=q, k=q, v=q))
    assert bias.dtype == torch.float32 and bias.min() < torch.finfo(torch.float16).min
    mask = join_masks(torch.arange(keys) > keys - 10, bias, torch.float16)
    assert mask is not None and mask[..., :-9].amax(-1).eq(0).all() and mask.isfinite().float().mean() > 0.9


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
