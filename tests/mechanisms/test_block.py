"""Block attention against loops written from its equations: outputs, every gradient, limits, padding, cost, errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.mechanisms.block import BlockAttention, Blocks
from support.mechanisms import other_references as references
from support.mechanisms.inputs import (
    DIM,
    HEADS,
    LENGTHS,
    LargestTensor,
    future,
    gradient,
    labelled,
    random_case,
)

LAYERS = {"1": "block_hidden", "2": "block_score", "3": "block_query", "4": "block_gate"}


def make(size: int, **kwargs: object) -> Any:
    """Return a module in float64 and evaluation mode, with biases that are not 0."""
    torch.manual_seed(1)
    module = BlockAttention(DIM, HEADS, block_length=size, self_attention=True, **kwargs).eval()
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            if key.startswith("block") and key.endswith("bias"):
                parameter.normal_()
    return module.double()


def run(module: LocalAttention, x: Tensor, padding: Tensor, **kwargs: bool) -> tuple:
    kwargs.setdefault("need_weights", False)
    return module(x, x, x, key_padding_mask=padding if padding.any() else None, **kwargs)


def expected(module: Any, x: Tensor, padding: Tensor) -> tuple[Tensor, Tensor]:
    """Return the reference's output T×B×C, and its inner weights averaged over heads, B×T×T."""
    layers = {"P": module.block_proj.weight}
    for number, name in LAYERS.items():
        layers |= {f"W{number}": getattr(module, name).weight, f"b{number}": getattr(module, name).bias}
    outputs, means = [], []
    for b in range(x.size(1)):
        projections = (module.q_proj, module.k_proj, module.v_proj)
        q, k, v = (torch.stack((x[:, b] @ p.weight.T + p.bias).chunk(HEADS, dim=-1)) for p in projections)
        heads, weights = references.block_attention(q, k, v, ~padding[b], module.block_length, layers)
        outputs.append(torch.cat(list(heads), dim=-1) @ module.out_proj.weight.T + module.out_proj.bias)
        means.append(weights.mean(0))
    return torch.stack(outputs, dim=1), torch.stack(means)


@settings(max_examples=20, deadline=None)
@given(LENGTHS, st.booleans(), st.sampled_from([0, 1, 2, 3, 4, 11]))
@example([4, 4, 4, 4], False, 4)  # as many sentences as positions, and no padding
@example([8, 4], True, 4)  # lengths that blocks divide
@example([11, 3, 1], True, 0)  # blocks of three sizes
@example([11, 10], False, 0)
@example([7], False, 3)
def test_equals_equations(lengths: list[int], left: bool, size: int) -> None:
    module, (x, padding) = make(size), random_case(lengths, left)
    real = (~padding).T.to(x.dtype)[..., None]
    probe = torch.randn(x.shape, generator=torch.Generator().manual_seed(7), dtype=x.dtype) * real
    results = []
    for forward in (run, expected):
        inputs = x.clone().requires_grad_()
        module.zero_grad()
        out, _ = forward(module, inputs, padding)
        (out * probe).sum().backward()
        gradients = [(name, gradient(p)) for name, p in module.named_parameters()]
        results.append([("output", out * real), ("input", inputs.grad), *gradients])
    for (name, got), (_, wanted) in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-9, msg=labelled(name))
    with torch.no_grad():
        explicit, means = run(module, x, padding, need_weights=True)
    torch.testing.assert_close(means[~padding], expected(module, x, padding)[1][~padding].detach())
    torch.testing.assert_close(explicit * real, results[0][0][1].detach())


@pytest.mark.parametrize("size", [0, 4])
def test_words_stand_in_the_blocks_that_are_stated(size: int) -> None:
    """For sentences of 0 to 40 words: each word in one slot, blocks full but for the last, sizes as stated."""
    lengths = torch.arange(41)[:, None]
    for padding in (torch.arange(40) >= lengths, torch.arange(40) < 40 - lengths):
        blocks = Blocks.of(padding, 40, size, padding.device)
        assert blocks.hidden is not None
        words = torch.arange(1.0, 41).expand(41, 40).masked_fill(padding, 0)
        cut = blocks.cut(words[:, None, :, None])[:, 0, ..., 0]
        assert torch.equal(blocks.join(cut[:, None, ..., None], 40)[:, 0, :, 0], words)
        for n in range(1, 41):
            there = [row[row > 0].tolist() for row in cut[n] if row.any()]
            assert sum(there, []) == words[n][words[n] > 0].tolist()
            stated = size or next(r for r in range(1, 9) if r**3 >= 2 * n)
            assert [len(block) for block in there[:-1]] == [stated] * (len(there) - 1)
            assert len(there[-1]) <= stated
        assert torch.equal(blocks.hidden, cut == 0)


def test_dropout_is_on_both_attentions() -> None:
    """In training all results vary, with and without weights; in evaluation none does."""
    module, (x, padding) = make(3, dropout=0.4), random_case([8], True)
    assert torch.equal(run(module, x, padding)[0], run(module, x, padding)[0])
    module.train()
    for need_weights in (False, True):
        draws = torch.stack([run(module, x, padding, need_weights=need_weights)[0] for _ in range(50)])
        assert draws.std(0).min() > 1e-3


def test_it_makes_no_quadratic_tensor_but_that_of_the_blocks() -> None:
    """Every tensor of a forward and backward pass has at most T·2C, T·r·H or M²·H elements."""

    def largest(length: int) -> int:
        module = BlockAttention(DIM, HEADS, block_length=16, self_attention=True)
        x = torch.randn(length, 1, DIM, requires_grad=True)
        with LargestTensor() as mode:
            module(x, x, x, need_weights=False)[0].sum().backward()
        return mode.size

    assert largest(2048) <= max(2048 * 3 * DIM, 2048 * 16 * HEADS, 128**2 * HEADS)
    assert largest(2048) <= 2.1 * largest(1024)


def test_errors() -> None:
    with pytest.raises(ValueError, match="not -1"):
        BlockAttention(DIM, HEADS, block_length=-1)
    module, (x, _) = make(4), random_case([5], True)
    with pytest.raises(ValueError, match="blocks need the whole sentence"):
        module(x, x, x, attn_mask=future(5))
    state: dict = {}
    module(x[:1], x[:1], x[:1], incremental_state=state)
    with pytest.raises(ValueError, match="not word by word"):
        module(x[1:2], x[1:2], x[1:2], incremental_state=state)
