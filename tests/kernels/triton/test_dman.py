"""DMAN's kernels against dense tensors: outputs, every gradient, dropout, memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.kernels.triton import dman
from fairseq_localattn.kernels.triton.dman import dynamic_mask_attention
from fairseq_localattn.kernels.triton.operators import draw_seed
from support.kernels import DEVICE, assert_equal, needs_gpu, needs_triton, padding_of, recorded
from support.mechanisms.inputs import LargestTensor

pytestmark = needs_triton
LOWEST = -23.0
HEADS = 2


def terms(dtype: torch.dtype, length: int, table: int) -> list[Tensor]:
    """Return random q, k, v, x, P and U for two sentences, that lie in memory as projections write them."""
    torch.manual_seed(length)
    q, k, v = torch.randn(3, length, 2, HEADS, 12).permute(0, 2, 3, 1, 4).to(dtype)
    x = torch.randn(2, length) * 3
    x[1, -1] = -60  # all of its masks are the least one
    found = [q, k, v, x, torch.randn(table).to(dtype), torch.randn(HEADS).to(dtype)]
    return [each.to(DEVICE).requires_grad_() for each in found]


def dense(given: list[Tensor], hidden: Tensor, ahead: int, factors: Tensor | None = None) -> Tensor:
    """Compute attention by tensors B×H×T×T in fp64; ``factors``: of dropout."""
    q, k, v, x, P, U = given
    position = torch.arange(q.size(2), device=q.device)
    apart = (position[:, None] - position).clamp(-ahead, P.numel() - ahead - 1) + ahead
    z = (x[:, None, :, None] + P[apart] + U[:, None, None]).clamp(min=LOWEST)
    scores = q @ k.transpose(2, 3) * 0.3 + torch.nn.functional.logsigmoid(z)
    weights = scores.masked_fill(hidden, -1e30).softmax(-1).masked_fill(hidden, 0)
    return (weights if factors is None else weights * factors) @ v


def by_kernel(given: list[Tensor], padding: Tensor | None, ahead: int, causal: bool, dropout: float = 0.0) -> Tensor:
    q, k, v, x, P, U = given
    options: dict[str, Any] = {"scaling": 0.3, "lowest_z": LOWEST, "dropout": dropout}
    return dynamic_mask_attention(q, k, v, (x, P, U), padding=padding, ahead=ahead, causal=causal, **options)


def hidden_keys(padding: Tensor | None, length: int, causal: bool) -> Tensor:
    hidden = torch.zeros(2, 1, length, length, dtype=torch.bool, device=DEVICE)
    if padding is not None:
        hidden = hidden | padding[:, None, None]
    return hidden | torch.ones_like(hidden).triu(1) if causal else hidden


CASES = {  # length, distances ahead and behind with an entry, causal, padding
    "one block": (11, 20, 20, False, "left"),
    "one query": (1, 0, 3, False, "none"),
    "several blocks, clipped on both sides": (70, 20, 7, False, "right"),
    "causal": (70, 0, 33, True, "left"),
    "causal, not padded": (33, 0, 50, True, "none"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, pytest.param(torch.bfloat16, marks=needs_gpu)])
def test_results_are_those_of_dense_tensors(case: str, dtype: torch.dtype) -> None:
    """Also for a sentence of padding, and for the queries before the first word, which see nothing: all is 0 there."""
    length, ahead, behind, causal, side = CASES[case]
    if dtype != torch.float32 and DEVICE.type == "cpu" and case != "one block":
        pytest.skip("the interpreter takes long")
    given, padding = terms(dtype, length, ahead + behind + 1), padding_of(side, length)
    exact = [each.detach().double().requires_grad_() for each in given]
    wanted = dense(exact, hidden_keys(padding, length, causal), ahead)
    got = by_kernel(given, padding, ahead, causal)
    assert padding is None or not got[0].any()
    tolerance = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    assert_equal(got, given, wanted, exact, tolerance)


@pytest.mark.parametrize("length", [12, 40])
def test_dropout_is_the_same_in_both_passes(length: int) -> None:
    """Which weights are dropped is read from attention to values that are the identity, in parts of 12 keys."""
    given = terms(torch.float32, length, 9)
    q, k, v, *rest = given

    def dropped(v: Tensor) -> Tensor:
        torch.manual_seed(5)
        return by_kernel([q, k, v, *rest], None, 4, False, dropout=0.3)

    parts = torch.eye(length, device=DEVICE).split(12, dim=1)
    identity = [torch.nn.functional.pad(part, (0, 12 - part.size(1))).expand(2, HEADS, -1, -1) for part in parts]
    kept = torch.cat([dropped(part) for part in identity], dim=3)[..., :length] != 0
    assert abs(kept.double().mean() - 0.7) < 4 * (0.21 / kept.numel()) ** 0.5
    exact = [each.detach().double().requires_grad_() for each in given]
    wanted = dense(exact, hidden_keys(None, length, False), 4, kept / 0.7)
    assert_equal(dropped(v), given, wanted, exact, 1e-5)
    torch.manual_seed(6)
    assert not torch.equal(by_kernel(given, None, 4, False, dropout=0.3), dropped(v))


def test_no_tensor_is_as_large_as_the_weights() -> None:
    given = [each.detach() for each in terms(torch.float32, 256, 9)]
    with recorded(run=False) if DEVICE.type == "cpu" else torch.no_grad(), LargestTensor() as largest:
        options = 0.3, LOWEST, 0.1, 4, False
        seed = draw_seed(DEVICE)
        out, lse = dman._run_forward(*given, None, seed, *options)
        dman._run_backward(out, *given, None, seed, out, lse, *options)
    assert largest.size <= 2 * HEADS * 256 * 12
