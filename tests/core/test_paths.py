"""Decoding along paths: which mechanisms it serves, and that the others decode as without it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from fairseq_localattn.core import paths
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.core.call import Call
from fairseq_localattn.core.decoding import IncrementalState
from fairseq_localattn.core.paths import BeamState
from fairseq_localattn.grammar.build import attention

FOLLOWING = ("san", "shaw & local", "sman", "t5", "alibi & rope", "gauss", "dman", "aw", "mw")


class OwnAttend(LocalAttention):
    """Computes all by itself."""

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        return call.v.cumsum(2)[:, :, -call.q.size(2) :], None


class OwnScores(LocalAttention):
    """Adds scores that are read from the keys."""

    reads_projections = True

    def score_bias(self, call: Call) -> Tensor:
        return 5 * call.k.sum(-1)[:, :, None]


def decoded(module: LocalAttention, state: IncrementalState) -> Tensor:
    """Return the outputs of four steps of two sentences with two hypotheses each, which change places."""
    found, x = [], torch.randn(4, 4, 8, generator=torch.Generator().manual_seed(1))
    for step in range(4):
        if isinstance(state, BeamState):
            state.begin_step(torch.zeros(4 if step else 2))
        here = x[step : step + 1] if step else x[:1, :2]
        found.append(module(here, here, here, incremental_state=state, need_weights=False)[0])
        order = torch.tensor([2, 3, 0, 3] if step else [0, 1, 0, 1])
        if isinstance(state, BeamState):
            state.reorder(order, 2)
        if not isinstance(state, BeamState) or module.paths_of(state) is None:
            module.reorder_incremental_state(state, order)
    return torch.cat(found, dim=1)


def by_word(text: str) -> LocalAttention:
    return attention(text, 8, 2, site="decoder", self_attention=True)


@pytest.mark.parametrize(
    ("make", "follows"),
    [
        (lambda: OwnAttend(8, 2, self_attention=True), False),
        (lambda: OwnScores(8, 2, self_attention=True), False),
        (partial(by_word, "gauss(width=keys)"), False),
        *((partial(by_word, text), True) for text in FOLLOWING),
    ],
)
def test_a_beam_shares_keys_where_only_positions_and_queries_score(
    make: Callable[[], LocalAttention], follows: bool
) -> None:
    torch.manual_seed(1)
    module = make().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
        torch.testing.assert_close(decoded(module, BeamState()), decoded(module, {}))
    assert module.said_by_steps == follows


@pytest.mark.parametrize("text", ["san", "aw"])
def test_keys_that_are_kept_in_bf16(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """In batches of enough sentences; the outputs have the precision of the inputs."""
    torch.manual_seed(1)
    module = by_word(text).eval()
    found: dict[int, Tensor] = {}
    with torch.no_grad():
        exact = decoded(module, BeamState())
        for least, dtype in ((2, torch.bfloat16), (3, torch.float32)):
            monkeypatch.setattr(paths, "NARROW_FROM", least)
            state = BeamState()
            state.kept_in = torch.bfloat16
            found[least] = decoded(module, state)
            assert {x.dtype for x in module.cache.read(state).values() if x is not None} == {dtype}
    assert torch.equal(found[3], exact) and not torch.equal(found[2], exact)
    torch.testing.assert_close(found[2], exact, atol=0.02, rtol=0)
