"""What holds of every mechanism in use: dropout, memory, chunks after a prefix, mistakes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck

from fairseq_localattn.core import query_blocks
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.core.banded import BANDED_FROM
from support.mechanisms import inputs
from support.mechanisms.inputs import DIM, HEADS, LargestTensor, future, make, random_case, take_long_ways

WEIGHTED = ["san", "csan(window=3, head_span=1)", "csan(window=3)", "1*global + 1*local + 1*forward + 1*backward"]
WEIGHTED += ["dman(max_distance=3)", "sman(boundary=1)", "shaw(max_distance=2)", "t5(buckets=8, max_distance=5)"]
WEIGHTED += ["alibi", "sinks(window=2, sinks=1)", "gauss", "mw", "mw(renormalise=true)", "aw", "block(block_length=3)"]


@pytest.mark.slow
@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("text", WEIGHTED)
def test_dropout_is_on_the_weights(text: str, long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In training the mean of many draws is the output without dropout; in evaluation there is no dropout."""
    if long:
        take_long_ways(monkeypatch, 2)
    module = make(text, dropout=0.3).double()
    x, _ = random_case([6], left=False)
    wanted, _ = module.eval()(x, x, x, need_weights=False)
    assert torch.equal(module(x, x, x, need_weights=False)[0], wanted)
    module.train()
    many = x.expand(-1, 1500, -1)  # dropout is drawn for each sentence by itself
    for need_weights in (False, True):
        draws = module(many, many, many, need_weights=need_weights)[0]
        assert draws.std(1).min() > 0.01, "some output does not vary"
        standard_error = draws.std(1, keepdim=True) / 1500**0.5
        # Between blocks, what was dropped passes through gates.
        assert module.kind == "block" or ((draws.mean(1, keepdim=True) - wanted).abs() < 5 * standard_error).all()


@pytest.mark.parametrize("way", ["short", "long", "blocks of queries"])
@pytest.mark.parametrize("text", ["san", "csan(window=3)", "local(window=1) & alibi", "shaw", "dman", "mw", "block"])
def test_gradients_with_dropout(text: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those of the weights that were kept; what is computed again drops the same ones."""
    if way == "long":
        take_long_ways(monkeypatch, 2)
    if way == "blocks of queries":
        monkeypatch.setattr(query_blocks, "MEMORY", 0)
        monkeypatch.setattr(query_blocks, "LEAST", 2)
    module = make(text, dropout=0.4).double().train()

    def seeded(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return module(x, x, x, need_weights=False)[0]

    x = random_case([6, 5], left=False)[0].requires_grad_()
    assert gradcheck(seeded, (x,), fast_mode=True)


def largest(module: LocalAttention, queries: int, keys: int) -> int:
    """Return the number of elements of the largest tensor that is made in both passes."""
    x = torch.randn(queries, 1, DIM, requires_grad=True)
    memory = torch.randn(keys, 1, DIM) if keys else x
    with LargestTensor() as mode:
        module.train()(x, memory, memory, need_weights=False)[0].sum().backward()
    return mode.size


@pytest.mark.parametrize(
    ("text", "length", "times"),
    [
        ("csan(window=11)", 2048, 2.1),
        ("sman(boundary=4)", 2048, 2.1),
        ("sinks(window=8)", 2048, 2.1),
        ("sman(boundary=none)", 2048, 3.0),  # its window grows with √T, so T·√T: 2.8 times
        ("block(block_length=16)", 1024, 2.1),
    ],
)
def test_a_window_makes_no_quadratic_tensor(text: str, length: int, times: float) -> None:
    """T·T would be 4 times as much."""
    assert BANDED_FROM < length
    assert largest(make(text), 2 * length, 0) <= times * largest(make(text), length, 0)


@pytest.mark.parametrize(
    ("text", "site", "queries", "keys", "most"),
    [
        ("shaw", "encoder", 256, 0, HEADS * 256 * (2 * 256 - 1)),  # the distances of all queries
        ("shaw(own_tables=true)", "encoder", 256, 0, HEADS * 256 * (2 * 256 - 1)),
        ("aw(segment_size=5)", "encoder", 256, 0, 3 * HEADS * 256 * 256),
        ("aw(segment_size=5)", "cross", 2, 500, 5 * 500 * DIM),  # the keys' projections, and no keys × keys
    ],
)
def test_scores_have_no_factor_of_channels_or_keys(text: str, site: str, queries: int, keys: int, most: int) -> None:
    assert largest(make(text, site), queries, keys) <= most


@pytest.mark.parametrize("text", ["san", "dman", "sman", "sman(boundary=none)"])
def test_a_step_takes_memory_linear_in_what_is_cached(text: str) -> None:
    def step(length: int) -> int:
        module, x = make(text, "decoder"), torch.zeros(length + 1, 1, DIM)
        options: dict[str, Any] = {"incremental_state": {}, "need_weights": False}
        with torch.no_grad():
            module(x[:length], x[:length], x[:length], **options)
            with LargestTensor() as mode:
                module(x[length:], x[length:], x[length:], **options)
        return mode.size

    assert step(2000) <= 2.1 * step(1000)


def test_a_long_causal_chunk_after_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries that start behind cached keys, in blocks: equal to the same rows of the full pass."""
    inputs.cut_into_blocks(monkeypatch, 3)
    module, (x, _), mask = make("csan(window=5)", "decoder").double(), random_case([14], left=False), future(14)
    full, _ = module(x, x, x, attn_mask=mask, need_weights=False)
    state: dict = {}
    first, _ = module(x[:4], x[:4], x[:4], incremental_state=state, attn_mask=mask[:4, :4], need_weights=False)
    rest, _ = module(x[4:], x[4:], x[4:], incremental_state=state, attn_mask=mask[4:], need_weights=False)
    torch.testing.assert_close(torch.cat([first, rest]), full)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("csan(window=10)", "window must be odd and positive"),
        ("csan(window=-3)", "window must be odd and positive"),
        ("csan(head_span=2)", "heads in an area must be odd"),
        ("csan(head_span=5)", "5 heads was asked for, and there are 4"),
        ("local(window=0)", "1 or more, not 0"),
        ("dman(max_distance=-1)", "0 or more, not -1"),
        ("sman(boundary=-2)", "0 or more, not -2"),
        ("san(activation=tanh)", "activation 'tanh'.*none, relu, gelu"),
        ("shaw(max_distance=-1)", "0 or more, not -1"),
        ("t5(buckets=5)", "even and 4 or more, not 5"),
        ("t5(buckets=2)", "even and 4 or more, not 2"),
        ("t5(max_distance=8)", "above 8 with 32 buckets, not 8"),
        ("rope(base=1)", "above 1, not 1"),
        ("sinks(window=0)", "1 position or more, not 0"),
        ("sinks(sinks=-1)", "0 or more, not -1"),
        ("block(block_length=-1)", "not -1"),
        ("aw(segment_size=0)", "1 or more, not 0"),
        ("gauss(center=middle)", "unknown centre 'middle'"),
        ("gauss(source=keys)", "unknown source"),
        ("gauss(hidden=relu)", "unknown hidden"),
        ("gauss(local_heads=5)", "5 heads with a Gaussian were asked for, and there are 4"),
        ("gauss(local_heads=-1)", "-1 heads"),
        ("gauss(width=0.1)", "'0.1': give head, keys, query, or a number of positions from 0.2"),
    ],
)
def test_sizes_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(text)


def test_sizes_of_a_site_and_of_heads() -> None:
    with pytest.raises(ValueError, match="above 16 with 32 buckets, not 16"):
        make("t5(max_distance=16)", "decoder")
    with pytest.raises(ValueError, match="means nothing in the other sentence"):
        make("gauss(center=self)", "cross")
    with pytest.raises(ValueError, match="pairs of channels, and each head has 3"):
        make("rope", channels=12)
    with pytest.raises(ValueError, match="divide"):
        LocalAttention(10, 4)


@pytest.mark.parametrize("text", ["block(block_length=4)", "aw(segment_size=2)"])
def test_what_needs_the_whole_sentence(text: str) -> None:
    module, (x, _) = make(text).double().train(), random_case([5], True)
    with pytest.raises(ValueError, match="need (the whole sentence|all keys)"):
        module(x, x, x, attn_mask=future(5))
    state: dict = {}
    module(x[:1], x[:1], x[:1], incremental_state=state)
    with pytest.raises(ValueError, match="not word by word"):
        module(x[1:2], x[1:2], x[1:2], incremental_state=state)
