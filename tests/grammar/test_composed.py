"""Composed attention against loops over heads, queries and keys, written from the mechanisms' equations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.grammar.build import attention
from support.mechanisms.inputs import take_long_ways

DIM, HEADS, LENGTH = 24, 4, 7
SIZE = DIM // HEADS
# (query position, key position) → a number, or whether the key is seen; by the head's number among its group's.
Term = Callable[[int, int], Any]


class Head:
    """What one head does, as the terms of its score and of its values."""

    def __init__(self) -> None:
        self.sees: list[Term] = []
        self.bias: list[Callable[[int, int, Tensor], Any]] = []
        self.weight: list[Callable[[int], Tensor]] = []
        self.value: list[Term] = []
        self.turn = False

    def out(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
        """Return the attended values T×D of q, k, v, T×D."""
        rows = []
        if self.turn:
            q, k = (torch.stack([rotated(x[i], i) for i in range(len(x))]) for x in (q, k))
        for i in range(len(q)):
            seen = [j for j in range(len(k)) if real[j] and all(see(i, j) for see in self.sees)] or [i]  # padding
            scores = [(q[i] * k[j]).sum() / math.sqrt(SIZE) + sum(term(i, j, q[i]) for term in self.bias) for j in seen]
            exponents = torch.stack([score.exp() for score in scores])
            weights = exponents / exponents.sum()
            for term in self.weight:
                weights = weights * term(i)[seen]
            row = sum(w * (v[j] + sum(term(i, j) for term in self.value)) for w, j in zip(weights, seen, strict=True))
            rows.append(row)
        return torch.stack(rows)


def rotated(x: Tensor, position: int) -> Tensor:
    """Rotate the pairs of channels of x by the position."""
    out = []
    for c in range(SIZE // 2):
        angle = position * 10_000 ** (-2 * c / SIZE)
        a, b = x[2 * c], x[2 * c + 1]
        out += [a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)]
    return torch.stack(out)


def local(head: Head, width: int) -> None:
    head.sees.append(lambda i, j: abs(i - j) <= width)


def backward(head: Head) -> None:
    head.sees.append(lambda i, j: j <= i)


def alibi(head: Head, number: int, heads: int) -> None:
    head.bias.append(lambda i, j, q: -(2 ** (-8 * (number + 1) / heads)) * abs(i - j))


def shaw(head: Head, part: Any) -> None:
    """Vectors of distances, shared by the heads."""
    most = part.max_distance

    def row(i: int, j: int) -> int:
        return max(-most, min(most, j - i)) + most

    head.bias.append(lambda i, j, q: (q * part.key_positions[0, row(i, j)]).sum() / math.sqrt(SIZE))
    if part.value_positions is not None:
        head.value.append(lambda i, j: part.value_positions[0, row(i, j)])


def dman(head: Head, part: Any, number: int, x: Tensor) -> None:
    def mask(i: int, j: int, q: Tensor) -> Tensor:
        z = (x[i] * part.query_mask.weight[0]).sum() + part.distance_mask[i - j + part.ahead] + part.head_mask[number]
        return torch.log(1 / (1 + torch.exp(-z)))

    head.bias.append(mask)


def mw(head: Head, part: Any, number: int, x: Tensor, real: Tensor) -> None:
    """Weights times the probability that a key lies between two pointers."""
    rows = slice(number * SIZE, (number + 1) * SIZE)

    def project(layer: torch.nn.Linear, position: int) -> Tensor:
        return layer.weight[rows] @ x[position] + layer.bias[rows]

    def pointer(name: str, i: int) -> Tensor:
        q = project(getattr(part, f"{name}_q_proj"), i)
        keys = [project(getattr(part, f"{name}_k_proj"), j) for j in range(len(x))]
        scores = torch.stack([(q * key).sum() / math.sqrt(SIZE) for key in keys])
        exponents = scores.exp() * real
        return exponents / exponents.sum()

    def mask(i: int) -> Tensor:
        left, right = pointer("left", i), pointer("right", i)
        masks = []
        for j in range(len(x)):
            masks.append(left[: j + 1].sum() * right[j:].sum() + right[: j + 1].sum() * left[j:].sum())
        return torch.stack(masks)

    head.weight.append(mask)


def heads_of(text: str, module: Any, x: Tensor, real: Tensor) -> list[Head]:
    """Return the heads that each text of the test has, by hand."""
    heads = [Head() for _ in range(HEADS)]
    parts: Any = getattr(module, "parts", None)
    if text == "2*csan(window=3, head_span=1) + 1*dman + 1*global":
        local(heads[0], 1)
        local(heads[1], 1)
        dman(heads[2], parts[1], 0, x)
    elif text == "local(window=2) & alibi & shaw(max_distance=2)":
        for number, head in enumerate(heads):
            local(head, 2)
            alibi(head, number, HEADS)
            shaw(head, parts[2])
    elif text == "local(window=2) & shaw(max_distance=20, values=false)":
        for head in heads:
            local(head, 2)
            shaw(head, parts[1])
    elif text == "local(window=2) & alibi & dman":
        for number, head in enumerate(heads):
            local(head, 2)
            alibi(head, number, HEADS)
            dman(head, parts[2], number, x)
    elif text == "rope & csan(window=5, head_span=1)":
        for head in heads:
            head.turn = True
            local(head, 2)
    elif text == "2*(dman & backward) + 2*(mw & alibi)":
        for number in (0, 1):
            dman(heads[number], parts[0].parts[0], number, x)
            backward(heads[number])
            mw(heads[2 + number], parts[1].parts[0], number, x, real)
            alibi(heads[2 + number], number, 2)
    elif text == "1*local(window=1) + 2*local(window=3) + 1*rope":
        local(heads[0], 1)
        local(heads[1], 3)
        local(heads[2], 3)
        heads[3].turn = True
    else:
        raise ValueError(text)
    return heads


TEXTS = (
    "2*csan(window=3, head_span=1) + 1*dman + 1*global",
    "local(window=2) & alibi & shaw(max_distance=2)",
    "local(window=2) & alibi & dman",
    "local(window=2) & shaw(max_distance=20, values=false)",
    "rope & csan(window=5, head_span=1)",
    "2*(dman & backward) + 2*(mw & alibi)",
    "1*local(window=1) + 2*local(window=3) + 1*rope",
)


def reference(text: str, module: LocalAttention, x: Tensor, real: Tensor) -> Tensor:
    """Return the output T×C for one sentence x, T×C; real: T, False at padding."""

    def split(layer: torch.nn.Linear) -> Tensor:
        return torch.stack((x @ layer.weight.T + layer.bias).chunk(HEADS, dim=-1))

    q, k, v = split(module.q_proj), split(module.k_proj), split(module.v_proj)
    found = heads_of(text, module, x, real)
    joined = torch.cat([head.out(q[h], k[h], v[h], real) for h, head in enumerate(found)], dim=-1)
    return joined @ module.out_proj.weight.T + module.out_proj.bias


def gradients(out: Tensor, module: LocalAttention, x: Tensor) -> dict[str, Tensor]:
    """Return the gradients of the output's weighted sum, of the input and of every parameter."""
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    named = dict(module.named_parameters())
    found = torch.autograd.grad((out * weights).sum(), [x, *named.values()], allow_unused=True)
    pairs = zip(["x", *named], found, strict=True)
    return {name: torch.zeros(()) if gradient is None else gradient for name, gradient in pairs}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("padded", [0, 2])
@pytest.mark.parametrize("long", [False, True])
def test_equals_the_equations(text: str, padded: int, long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output and every gradient, in float64, with padding on the right; ``long``: in the ways of long texts."""
    if long:
        take_long_ways(monkeypatch)
    torch.manual_seed(3)
    module = attention(text, DIM, HEADS, self_attention=True).double()
    x = torch.randn(LENGTH, DIM, dtype=torch.float64, requires_grad=True)
    real = torch.arange(LENGTH) < LENGTH - padded
    weights = torch.zeros(LENGTH, dtype=torch.float64)[:, None]
    ours, _ = module(x[:, None], None, None, key_padding_mask=~real[None], need_weights=False)
    ours = torch.where(real[:, None], ours[:, 0], weights)
    theirs = torch.where(real[:, None], reference(text, module, x, real), weights)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)
    expected = gradients(theirs, module, x)
    for name, gradient in gradients(ours, module, x).items():
        torch.testing.assert_close(gradient, expected[name].expand_as(gradient), rtol=1e-7, atol=1e-9, msg=name)


@pytest.mark.parametrize("text", ["rope & gauss(center=self, width=head)", "rope & gauss(source=input)", "rope & t5"])
def test_beside_rotations_padding_changes_nothing(text: str) -> None:
    """Rotations keep products alone as they are: mechanisms that read a query or a key by itself are refused."""
    torch.manual_seed(1)
    module = attention(text, 4 * HEADS, HEADS, site="encoder", self_attention=True).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    x = torch.randn(7, 1, 4 * HEADS)
    alone, _ = module(x, x, x, need_weights=False)
    padded = torch.cat([torch.randn(6, 1, 4 * HEADS), x])
    padding = torch.arange(13)[None] < 6
    behind, _ = module(padded, padded, padded, key_padding_mask=padding, need_weights=False)
    torch.testing.assert_close(behind[6:], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize(
    ("with_gradient", "dtype"), [(False, torch.float32), (True, torch.float32), (True, torch.float16)]
)
def test_a_window_whose_keys_are_all_cut_off(
    long: bool, with_gradient: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keys share the weight; padding and the future stay hidden."""
    if long:
        take_long_ways(monkeypatch)
    torch.manual_seed(3)
    module = attention("local(window=2) & gauss(width=3, cut=true)", DIM, HEADS, self_attention=True, site="decoder")
    module.to(dtype)
    x, future = torch.randn(30, 1, DIM, dtype=dtype), torch.ones(30, 30, dtype=torch.bool).triu(1)
    changed = x.clone()
    changed[20:] += 1
    with torch.set_grad_enabled(with_gradient):
        for each in (x, changed):
            each.requires_grad_(with_gradient)
        first, other = (module(y, y, y, attn_mask=future, need_weights=False)[0][:20] for y in (x, changed))
        exact, _ = module(x, x, x, attn_mask=future, need_weights=True)
    near = 2e-3 if dtype == torch.float16 else 1e-5
    torch.testing.assert_close(first, other, rtol=0, atol=near)
    torch.testing.assert_close(first, exact[:20], rtol=0, atol=near)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_terms_far_from_0_in_half_precision(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bell far from a query's window is as exact in the band as in the products of all keys."""
    torch.manual_seed(3)
    module = attention("local(window=2) & gauss", DIM, HEADS, self_attention=True).to(dtype)
    for weight in module.parameters():
        weight.data *= 2
    x = torch.randn(300, 1, DIM, dtype=dtype)
    with torch.no_grad():
        dense = module(x, x, x, need_weights=False)[0]
        take_long_ways(monkeypatch)
        band = module(x, x, x, need_weights=False)[0]
    torch.testing.assert_close(band.float(), dense.float(), rtol=0, atol=0.05)


@pytest.mark.parametrize("text", ["4*san + 4*alibi", "local(window=2) & alibi", "san"])
def test_the_activation_is_applied_once_to_all_heads(text: str) -> None:
    torch.manual_seed(3)
    plain = attention(text, 16, 8, self_attention=True)
    module = attention(text, 16, 8, self_attention=True, activation="relu")
    module.load_state_dict(plain.state_dict())
    seen: list[Tensor] = []
    plain.out_proj.register_forward_pre_hook(lambda _, heads: seen.append(heads[0]))
    x = torch.randn(5, 2, 16)
    plain(x, x, x)
    assert (seen[0] < 0).any()
    torch.testing.assert_close(module(x, x, x)[0], module.out_proj(seen[0].relu()))


@pytest.mark.parametrize("text", ["sman(boundary=2)", "csan(window=3)", "local(window=2) & alibi", TEXTS[-1]])
@pytest.mark.parametrize("long", [False, True])
def test_attn_mask_may_need_a_gradient(text: str, long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A learned bias over positions gets the gradient that it has beside returned weights."""
    if long:
        take_long_ways(monkeypatch)
    torch.manual_seed(3)
    module = attention(text, DIM, HEADS, self_attention=True).double()
    x = torch.randn(LENGTH, 2, DIM, dtype=torch.float64)
    found = []
    for need_weights in (False, True):
        mask = torch.randn(LENGTH, LENGTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        mask.requires_grad_()
        out, _ = module(x, x, x, attn_mask=mask, need_weights=need_weights)
        found.append(torch.autograd.grad(out.square().sum(), mask)[0])
    assert found[0].abs().max() > 1e-3
    torch.testing.assert_close(*found)
