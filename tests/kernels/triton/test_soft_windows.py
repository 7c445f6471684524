"""DiffWin's kernels against the equations and dense tensors: outputs, every gradient, dropout, memory, launches."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from torch import Tensor

from benchmarks.launches import counted
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.grammar.build import attention
from fairseq_localattn.kernels.triton import soft_windows
from fairseq_localattn.kernels.triton.soft_windows import window_attention
from fairseq_localattn.mechanisms.windowed import Segments, segment_window, soft_window
from support.kernels import (
    DEVICE,
    SHARED_MEMORY,
    compile_launches,
    needs_gpu,
    needs_interpreter,
    needs_triton,
    recorded,
)
from support.mechanisms import references
from support.mechanisms.implementations import compute_by
from support.mechanisms.inputs import LargestTensor

pytestmark = needs_triton
SCALING = 0.4
COUNTS = {"mw": 3, "aw": 4}  # tensors of queries; there is one more of keys, the values
TOLERANCES = {torch.float32: 2e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let more than 16 queries or keys be several blocks."""
    monkeypatch.setattr(soft_windows, "BLOCK", 16)
    monkeypatch.setattr(soft_windows, "MOST_BYTES", 80)


def heads(kind: str, queries: int, keys: int, channels: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Return random heads of two sentences, as one product of queries and one of keys: T×B×H×n×D."""
    torch.manual_seed(keys)
    sizes = ((queries, COUNTS[kind]), (keys, COUNTS[kind] + 1))
    found = [torch.randn(length, 2, 1, count, channels) for length, count in sizes]
    return [x.to(DEVICE, dtype).requires_grad_() for x in found]


def apart(joined: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the tensors B×H×T×D of queries and of keys."""
    queries, keys = ([x.permute(1, 2, 0, 3) for x in each.unbind(3)] for each in joined)
    return queries, keys


def by_kernel(joined: list[Tensor], padding: Tensor | None, segment: int, causal: bool, dropout: float = 0.0) -> Tensor:
    queries, keys = apart(joined)
    options: dict[str, Any] = {"scaling": SCALING, "dropout": dropout, "segment": segment, "causal": causal}
    return window_attention(queries, keys, padding=padding, **options)


def dense(
    joined: list[Tensor], padding: Tensor | None, segment: int, causal: bool, factors: Tensor | float = 1
) -> Tensor:
    """Compute attention by tensors B×H×T×S; ``factors``: of dropout."""
    queries, (*keys, values) = apart(joined)
    score, left, right, *local = (q @ k.transpose(2, 3) * SCALING for q, k in zip(queries, keys, strict=True))
    hidden = torch.zeros_like(score, dtype=torch.bool)
    if padding is not None:
        hidden |= padding[:, None, None]
    if causal:
        hidden |= torch.ones_like(hidden).triu(1)
    pointers = torch.stack([left, right]).masked_fill(hidden, -1e30).softmax(-1)
    segments = Segments.of(padding, score.size(3), segment, score.device)
    window = soft_window(pointers) if segment == 1 else segment_window(pointers, segments)
    if local:
        score = score + local[0] * window
    weights = score.masked_fill(hidden, -1e30).softmax(-1).masked_fill(hidden, 0)
    return (weights * (1 if local else window) * factors) @ values


def assert_equal(got: Tensor, joined: list[Tensor], wanted: Tensor, exact: list[Tensor]) -> None:
    """Compare outputs, and the gradients of all queries and keys, by their greatest differences."""
    probe = torch.randn(got.shape, generator=torch.Generator().manual_seed(7)).to(got)
    found = torch.autograd.grad(got, joined, probe)
    gradients = torch.autograd.grad(wanted, exact, probe.double())
    for one, other in zip((got, *found), (wanted, *gradients), strict=True):
        gap = (one.double() - other).abs().max()
        assert gap <= TOLERANCES[got.dtype] * other.abs().max(), (gap, other.abs().max())


CASES = {  # kind, queries, keys, channels, segment, causal, padding
    "one block": ("aw", 9, 12, 12, 1, False, "left"),
    "aw, blocks of both": ("aw", 18, 20, 12, 1, False, "right"),
    "mw, blocks of both": ("mw", 17, 18, 16, 1, False, "none"),
    "aw, causal": ("aw", 17, 17, 12, 1, True, "none"),
    "mw, causal": ("mw", 34, 34, 12, 1, True, "left"),
    "mw, segments": ("mw", 3, 17, 12, 3, False, "none"),
    "aw, segments": ("aw", 18, 35, 12, 5, False, "left"),
    "aw, a segment a block": ("aw", 5, 20, 12, 16, False, "right"),
}


def padding_of(side: str, keys: int) -> Tensor | None:
    """Return a padding mask: the first sentence is all padding, the second in part."""
    if side == "none":
        return None
    padding = torch.zeros(2, keys, dtype=torch.bool, device=DEVICE)
    padding[0] = True
    padding[1, slice(None, keys // 3) if side == "left" else slice(-(keys // 3), None)] = True
    return padding


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, pytest.param(torch.bfloat16, marks=needs_gpu)])
def test_results_are_those_of_dense_tensors(case: str, dtype: torch.dtype) -> None:
    """Also for a sentence of padding, and for queries before the first word, which see nothing: all is 0 there."""
    kind, queries, keys, channels, segment, causal, side = CASES[case]
    if dtype != torch.float32 and DEVICE.type == "cpu" and case != "one block":
        pytest.skip("the interpreter takes long")
    joined, padding = heads(kind, queries, keys, channels, dtype), padding_of(side, keys)
    exact = [x.detach().double().requires_grad_() for x in joined]
    got = by_kernel(joined, padding, segment, causal)
    assert padding is None or not got[0].any()
    assert_equal(got, joined, dense(exact, padding, segment, causal), exact)


@pytest.mark.parametrize(("kind", "segment", "causal"), [("aw", 3, False), ("mw", 1, True)])
def test_the_equations_hold(kind: str, segment: int, causal: bool) -> None:
    """Written with loops, for a sentence of two blocks of keys that is padded on both sides."""
    joined, padding = heads(kind, 19, 19, 12), torch.zeros(2, 19, dtype=torch.bool)
    padding[1, :2] = padding[1, -1:] = True
    queries, (*keys, values) = apart([x.detach().cpu().double() for x in joined])
    names = ("global", "left", "right", "local")[: len(queries)]
    # The reference divides scores by the root of the channels.
    adjusted = [q[1] * SCALING * 12**0.5 for q in queries]
    by_name = dict(zip(names, zip(adjusted, (k[1] for k in keys), strict=True), strict=True))
    weights = references.window_weights(kind, by_name, ~padding[1], segment, causal)
    got = by_kernel(joined, padding.to(DEVICE), segment, causal)[1].cpu().double()
    torch.testing.assert_close(got, weights @ values[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "segment", "queries"), [("mw", 1, 17), ("aw", 5, 9)])
def test_dropout_is_the_same_in_both_passes(kind: str, segment: int, queries: int) -> None:
    """Which weights are dropped is read from attention to values that are the identity."""
    keys = 18
    joined = heads(kind, queries, keys, keys)

    def dropped(joined: list[Tensor], seed: int = 5) -> Tensor:
        torch.manual_seed(seed)
        return by_kernel(joined, None, segment, False, dropout=0.3)

    identity = joined[1].detach().clone()
    identity[..., -1, :] = torch.eye(keys, device=DEVICE)[:, None, None]
    kept = dropped([joined[0].detach(), identity]) != 0
    assert abs(kept.double().mean() - 0.7) < 4 * (0.21 / kept.numel()) ** 0.5
    exact = [x.detach().double().requires_grad_() for x in joined]
    assert_equal(dropped(joined), joined, dense(exact, None, segment, False, kept / 0.7), exact)
    assert not torch.equal(dropped(joined), dropped(joined, seed=6))


# ---------------------------------------------------------------------------------------------- modules


def make(text: str, site: str, channels: int = 24, **options: Any) -> LocalAttention:
    torch.manual_seed(3)
    options |= {"self_attention": site != "cross", "encoder_decoder_attention": site == "cross"}
    module = attention(text, channels, 2, site=site, **options)
    compute_by(module, "triton")
    return module.train()


def inputs(module: LocalAttention, queries: int, keys: int, device: torch.device, dtype: torch.dtype) -> dict[str, Any]:
    """Return the arguments of a call for three sentences with padding; self-attention is that of the keys."""
    torch.manual_seed(1)
    query, key = (torch.randn(n, 3, module.embed_dim).to(device, dtype).requires_grad_() for n in (queries, keys))
    padding = torch.arange(keys, device=device) < torch.tensor([0, 2, 4], device=device)[:, None]
    mask = torch.full((keys, keys), -torch.inf, device=device, dtype=dtype).triu(1) if module.causal else None
    query = key if module.self_attention else query
    return {"query": query, "key": key, "value": key, "key_padding_mask": padding, "attn_mask": mask}


def train(module: LocalAttention, given: dict[str, Any]) -> Tensor:
    """Run both passes, and return the output."""
    out: Tensor = module(**given, need_weights=False)[0]
    out.backward(given["query"].detach())
    return out


SITES = [("aw", "encoder"), ("mw", "decoder"), ("aw(segment_size=5)", "cross")]


@pytest.mark.parametrize(("text", "site"), SITES)
def test_a_module_has_the_results_of_its_steps(text: str, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output, and the gradients of all parameters."""
    found = []
    by_window = MagicMock(wraps=window_attention)
    monkeypatch.setattr(soft_windows, "window_attention", by_window)
    for implementation in ("sdpa", "triton"):
        module = make(text, site).to(DEVICE)
        compute_by(module, implementation)
        out = train(module, inputs(module, 7, 11, DEVICE, torch.float32))
        found.append([out, *(p.grad for p in module.parameters())])
    by_window.assert_called_once()
    for got, wanted in zip(*reversed(found), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "mask"),
    [("mw(renormalise=true)", None), ("aw(segment_size=17)", None), ("aw", torch.eye(17))],
)
def test_what_the_kernels_do_not_compute_is_left_to_the_steps(text: str, mask: Tensor | None) -> None:
    module = make(text, "encoder").to(DEVICE)
    x = torch.randn(17, 1, 24, device=DEVICE)
    mask = None if mask is None else mask.to(DEVICE)
    got = module(x, x, x, attn_mask=mask, need_weights=False)[0]
    compute_by(module, "sdpa")
    torch.testing.assert_close(got, module(x, x, x, attn_mask=mask, need_weights=False)[0])


def on_meta(text: str, site: str, length: int) -> Callable[[], Tensor]:
    """Return both passes of a module in bf16 on the device meta."""
    meta, module = torch.device("meta"), make(text, site, dropout=0.1).to("meta", torch.bfloat16)
    given = inputs(module, length, length, meta, torch.bfloat16)
    return lambda: train(module, given)


@pytest.mark.parametrize(("text", "site"), [SITES[0], SITES[2]])
def test_memory_is_linear_in_the_length(text: str, site: str) -> None:
    """No operator makes a larger tensor than the joint projections, neither on meta nor inside of the kernels'."""
    length, joint = 1024, 9 * 24  # channels of q, k, v, and of a query and a key for each pointer and the local scores
    assert 3 * joint < length
    run = on_meta(text, site, length)
    with LargestTensor() as largest:
        run()
    assert 0 < largest.size <= 3 * joint * length
    joined = heads("aw", length, length, 12)
    with recorded(run=False) if DEVICE.type == "cpu" else nullcontext(), LargestTensor() as largest:
        by_kernel(joined, None, 1, False, dropout=0.1).sum().backward()
    assert 0 < largest.size <= 3 * joint * length


@pytest.mark.parametrize(("text", "site"), SITES)
def test_operations_of_an_attention(text: str, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its projections, both ways; the causal mask was read by an earlier layer."""
    monkeypatch.setattr("fairseq_localattn.mechanisms.windowed.is_future", lambda mask: True)
    run = on_meta(text, site, 40)
    with counted() as found:
        run()
    assert found.total <= 27 and not found.syncs, found.operations
    assert found.operations["soft_window"] == found.operations["soft_window_backward"] == 1


@pytest.mark.slow
@needs_interpreter
@pytest.mark.parametrize(
    ("text", "site", "length", "dtype"),
    [
        ("aw", "encoder", 40, torch.bfloat16),
        ("mw", "decoder", 40, torch.bfloat16),
        ("aw(segment_size=5)", "cross", 30, torch.float16),
        ("aw(segment_size=5)", "cross", 40, torch.float32),
    ],
)
def test_kernels_compile_for_a_gpu(
    text: str, site: str, length: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fits into the memory of every GPU since sm_80, and spills few registers."""
    monkeypatch.undo()  # blocks as in training
    module = make(text, site, 128, dropout=0.1).to(dtype)
    with recorded(run=False) as launches:
        train(module, inputs(module, length, length, DEVICE, dtype))
    assert [each["kernel"] for each in launches] == ["forward", "backward"]
    for launch, found in zip(launches, compile_launches(launches), strict=True):
        assert found["shared"] <= SHARED_MEMORY and found["stack"] <= 400, (launch, found)
