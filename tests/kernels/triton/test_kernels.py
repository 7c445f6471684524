"""The kernels of DMAN and of DiffWin against dense tensors: outputs, every gradient, dropout, memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from fairseq_localattn.kernels.triton import soft_windows
from fairseq_localattn.kernels.triton.dman import dynamic_mask_attention
from fairseq_localattn.kernels.triton.soft_windows import window_attention
from fairseq_localattn.mechanisms.windowed import Segments, segment_window, soft_window
from support.kernels import DEVICE, assert_equal, needs_gpu, needs_triton, padding_of, recorded
from support.mechanisms.inputs import LargestTensor

pytestmark = needs_triton
LOWEST, SCALING, HEADS = -23.0, 0.4, 2
COUNTS = {"mw": 3, "aw": 4}  # tensors of queries; there is one more of keys, the values
TOLERANCES = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let more than 16 queries or keys of DiffWin be several blocks."""
    monkeypatch.setattr(soft_windows, "BLOCK", 16)
    monkeypatch.setattr(soft_windows, "MOST_BYTES", 80)


@dataclass(frozen=True)
class Case:
    """A call of ``dman``, ``mw`` or ``aw``: two sentences, the second with padding on a ``side``.

    ``distances``: those ahead and behind that have an entry in DMAN.
    """

    kind: str
    queries: int
    keys: int
    side: str = "none"
    causal: bool = False
    channels: int = 12
    segment: int = 1
    distances: tuple[int, int] = (4, 4)

    def draw(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Return random tensors that lie in memory as projections write them.

        Of DMAN q, k, v, x, P and U; of DiffWin one product of queries and one of keys, T×B×H×n×D.
        """
        torch.manual_seed(self.keys)
        if self.kind != "dman":
            sizes = ((self.queries, COUNTS[self.kind]), (self.keys, COUNTS[self.kind] + 1))
            found = [torch.randn(length, 2, 1, count, self.channels) for length, count in sizes]
            return [x.to(DEVICE, dtype).requires_grad_() for x in found]
        q, k, v = torch.randn(3, self.keys, 2, HEADS, self.channels).permute(0, 2, 3, 1, 4).to(dtype)
        x = torch.randn(2, self.keys) * 3
        x[1, -1] = -60  # all of its masks are the least one
        found = [q, k, v, x, torch.randn(sum(self.distances) + 1).to(dtype), torch.randn(HEADS).to(dtype)]
        return [each.to(DEVICE).requires_grad_() for each in found]

    def with_values(self, given: Sequence[Tensor], values: Tensor) -> list[Tensor]:
        """Return the same with other values S×D in all heads."""
        if self.kind == "dman":
            return [*given[:2], values.expand(2, HEADS, -1, -1), *given[3:]]
        keys = given[1].detach().clone()
        keys[..., -1, :] = values[:, None, None]
        return [given[0], keys]

    def by_kernel(self, given: Sequence[Tensor], padding: Tensor | None, dropout: float = 0.0) -> Tensor:
        rules: dict[str, Any] = {"padding": padding, "causal": self.causal, "scaling": SCALING, "dropout": dropout}
        if self.kind == "dman":
            q, k, v, x, P, U = given
            return dynamic_mask_attention(q, k, v, (x, P, U), ahead=self.distances[0], lowest_z=LOWEST, **rules)
        queries, keys = _apart(given)
        return window_attention(queries, keys, segment=self.segment, **rules)

    def dense(self, given: Sequence[Tensor], padding: Tensor | None, factors: Tensor | float = 1) -> Tensor:
        """Compute attention by tensors B×H×T×S; ``factors``: of dropout."""
        hidden = torch.zeros(2, 1, self.queries, self.keys, dtype=torch.bool, device=DEVICE)
        hidden = hidden if padding is None else hidden | padding[:, None, None]
        hidden = hidden | torch.ones_like(hidden).triu(1) if self.causal else hidden
        if self.kind == "dman":
            q, k, values, x, P, U = given
            ahead, behind = self.distances
            position = torch.arange(self.keys, device=DEVICE)
            P = P[(position[:, None] - position).clamp(-ahead, behind) + ahead]
            score = q @ k.mT * SCALING + logsigmoid((x[:, None, :, None] + P + U[:, None, None]).clamp(min=LOWEST))
        else:
            queries, (*keys, values) = _apart(given)
            score, left, right, *local = (q @ k.mT * SCALING for q, k in zip(queries, keys, strict=True))
            pointers = torch.stack([left, right]).masked_fill(hidden, -1e30).softmax(-1)
            segments = Segments.of(padding, self.keys, self.segment, DEVICE)
            window = soft_window(pointers) if self.segment == 1 else segment_window(pointers, segments)
            score, factors = (score + local[0] * window, factors) if local else (score, window * factors)
        weights = score.masked_fill(hidden, -1e30).softmax(-1).masked_fill(hidden, 0)
        return (weights * factors) @ values


def _apart(joined: Sequence[Tensor]) -> list[list[Tensor]]:
    """Return the tensors B×H×T×D of queries and of keys."""
    return [[x.permute(1, 2, 0, 3) for x in each.unbind(3)] for each in joined]


def exact(given: Sequence[Tensor]) -> list[Tensor]:
    return [each.detach().double().requires_grad_() for each in given]


SMALL = {"dman": Case("dman", 11, 11, "left", distances=(20, 20)), "aw": Case("aw", 9, 12, "left")}
CASES = {
    **SMALL,
    "dman, one query": Case("dman", 1, 1, distances=(0, 3)),
    "dman, blocks, clipped on both sides": Case("dman", 70, 70, "right", distances=(20, 7)),
    "dman, causal": Case("dman", 70, 70, "left", causal=True, distances=(0, 33)),
    "dman, causal, not padded": Case("dman", 33, 33, causal=True, distances=(0, 50)),
    "aw, blocks of both": Case("aw", 18, 20, "right"),
    "mw, blocks of both": Case("mw", 17, 18, channels=16),
    "aw, causal": Case("aw", 17, 17, causal=True),
    "mw, causal": Case("mw", 34, 34, "left", causal=True),
    "mw, segments": Case("mw", 3, 17, segment=3),
    "aw, segments": Case("aw", 18, 35, "left", segment=5),
    "aw, a segment a block": Case("aw", 5, 20, "right", segment=16),
}
# The interpreter takes long, and has no products of bfloat16.
PAIRS = [(name, torch.float32) for name in CASES] + [(name, torch.float16) for name in SMALL]
ON_A_GPU = [pytest.param(name, dtype, marks=needs_gpu) for name in CASES for dtype in (torch.float16, torch.bfloat16)]


@pytest.mark.parametrize(("name", "dtype"), [*PAIRS, *ON_A_GPU])
def test_results_are_those_of_dense_tensors(name: str, dtype: torch.dtype) -> None:
    """Also for a sentence of padding, and for the queries before the first word, which see nothing: all is 0 there."""
    case = CASES[name]
    given, padding = case.draw(dtype), padding_of(case.side, case.keys)
    got, other = case.by_kernel(given, padding), exact(given)
    assert padding is None or not got[0].any()
    assert_equal(got, given, case.dense(other, padding), other, TOLERANCES[dtype])


@pytest.mark.parametrize(
    "case", [Case("dman", 12, 12), Case("dman", 40, 40), Case("mw", 17, 18), Case("aw", 9, 18)], ids=str
)
def test_dropout_is_the_same_in_both_passes(case: Case) -> None:
    """Which weights are dropped is read from attention to values that are the identity, in parts of 12 keys."""
    given = case.draw()

    def dropped(given: Sequence[Tensor], seed: int = 5) -> Tensor:
        torch.manual_seed(seed)
        return case.by_kernel(given, None, dropout=0.3)

    parts = [pad(part, (0, 12 - part.size(1))) for part in torch.eye(case.keys, device=DEVICE).split(12, dim=1)]
    kept = torch.cat([dropped(case.with_values(given, part)) for part in parts], dim=3)[..., : case.keys] != 0
    assert abs(kept.double().mean() - 0.7) < 4 * (0.21 / kept.numel()) ** 0.5
    other = exact(given)
    assert_equal(dropped(given), given, case.dense(other, None, kept / 0.7), other, 2e-5)
    assert not torch.equal(dropped(given), dropped(given, seed=6))


@pytest.mark.parametrize("case", [Case("dman", 256, 256), Case("aw", 1024, 1024)], ids=str)
def test_no_tensor_is_as_large_as_the_weights(case: Case) -> None:
    with recorded(run=False) if DEVICE.type == "cpu" else nullcontext(), LargestTensor() as largest:
        case.by_kernel(case.draw(), None, dropout=0.1).sum().backward()
    assert 0 < largest.size <= case.keys * 9 * 12 * 2
