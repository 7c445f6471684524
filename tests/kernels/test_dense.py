"""Dense attention by matrix products: values, gradients and dropout against the plain computation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_localattn.kernels import dense
from fairseq_localattn.kernels.dense import attention_and_weights, attention_by_products, fused_attention, use_products
from support.mechanisms.inputs import gradient


def random_heads(
    batch: int, heads: int, *, queries: int, keys: int, channels: int, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Return random q, k and v in float64 that need a gradient, B×H×·×D."""
    generator = torch.Generator().manual_seed(seed)

    def draw(length: int) -> Tensor:
        x = torch.randn(batch, heads, length, channels, generator=generator, dtype=torch.double)
        return x.requires_grad_()

    return draw(queries), draw(keys), draw(keys)


@pytest.mark.parametrize("by_column", [False, True])
def test_one_query_is_as_one_of_several(by_column: bool) -> None:
    """A step of decoding has another order of factors, in both layouts of the keys; gradients are alike."""
    q, k, v = (x.detach() for x in random_heads(2, 3, queries=4, keys=5, channels=6))
    other = torch.randn_like(q)
    k = k.transpose(-1, -2).contiguous().transpose(-1, -2) if by_column else k
    found = []
    for queries, place in ((slice(None), 1), (slice(1, 2), 0)):
        factors = [x.clone().requires_grad_() for x in (q[:, :, queries], k, v)]
        scores = dense.scaled_scores(factors[0], factors[1], 0.3)[:, :, place]
        pair = dense.paired_scores(factors[0], other[:, :, queries], k, k, scaling=0.3)[..., place, :]
        attended = attention_by_products(*factors, scaling=0.3)[:, :, place]
        (scores.square().sum() + attended.square().sum()).backward()
        found.append([scores, pair, attended, *(x.grad for x in factors[1:])])
    for one, several in zip(*found, strict=True):
        torch.testing.assert_close(one, several)


def test_which_implementation_suits() -> None:
    q = torch.zeros(1, 1, 3, 2)
    short, long = (torch.zeros(1, 1, dense.PRODUCTS_UP_TO + more, 2) for more in (0, 1))
    assert use_products(q, short) and not use_products(q, long)
    assert use_products(q, long, dropout=0.1), "torch's kernel for CPUs has no dropout"
    assert use_products(q, long, torch.zeros(1, requires_grad=True)), "nor a mask with a gradient"
    assert use_products(q, long, banded=True)
    assert use_products(q, long, implementation="products")
    assert not use_products(q, short, dropout=0.1, implementation="sdpa")
    with torch.autocast("cpu", torch.bfloat16):
        assert use_products(q, short) and not use_products(q, long)
    assert use_products(q.half(), short.half())
    with torch.no_grad():
        assert use_products(q.bfloat16(), short.bfloat16()) and not use_products(q.half(), short.half())
    on_gpu = (torch.zeros(*shape, device="meta") for shape in (q.shape, short.shape))
    assert not use_products(*(x.half() for x in on_gpu), implementation="products")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_in_half_precision_are_those_of_fp32(dtype: torch.dtype) -> None:
    """Only the result is rounded, and the gradients; the weights stay in fp32."""
    wide = random_heads(2, 2, queries=5, keys=7, channels=4)
    narrow = [x.detach().to(dtype).requires_grad_() for x in wide]
    exact = [x.detach().float().requires_grad_() for x in narrow]
    with torch.autocast("cpu", torch.bfloat16):
        found, weights = attention_and_weights(*narrow, scaling=0.5)
        found.float().sum().backward()
    wanted, exact_weights = attention_and_weights(*exact, scaling=0.5)
    assert torch.equal(found, wanted.to(dtype)) and torch.equal(weights, exact_weights)
    wanted.sum().backward()
    for got, want in zip(narrow, exact, strict=True):
        assert torch.equal(gradient(got), gradient(want).to(dtype))


@pytest.mark.parametrize("queries", [1, 5])
def test_inference_in_bf16(monkeypatch: pytest.MonkeyPatch, queries: int) -> None:
    """By products of the factors as they are; only the softmax is of fp32."""
    q, k, v = (x.detach().bfloat16() for x in random_heads(2, 2, queries=queries, keys=7, channels=4))
    rules: dict[str, Any] = {"hidden": torch.arange(7) > 5, "scaling": 0.5}
    wanted = fused_attention(q.double(), k.double(), v.double(), **rules)
    with torch.no_grad(), monkeypatch.context() as patch:
        patch.delattr(dense, "_Attention")  # the products of converted factors
        patch.delattr(F, "scaled_dot_product_attention")
        found = fused_attention(q, k, v, **rules)
        weights = attention_and_weights(q, k, v, **rules)[1]
    assert found.dtype == torch.bfloat16 and weights.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, atol=4e-2, rtol=2e-2)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, queries))


@pytest.mark.parametrize("implementation", ["sdpa", "products"])
def test_no_heads(monkeypatch: pytest.MonkeyPatch, implementation: str) -> None:
    """Not by torch's kernels: in fp16 that of a CPU ends the process there, with torch 2.11."""
    monkeypatch.delattr(F, "scaled_dot_product_attention")
    q, k, v = random_heads(2, 0, queries=4, keys=5, channels=3)
    found = fused_attention(q, k, v, hidden=torch.arange(5) > 3, scaling=0.5, implementation=implementation)
    assert found.shape == (2, 0, 4, 3)
    found.sum().backward()
    assert gradient(q).shape == q.shape


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("future", [False, True])
@pytest.mark.parametrize("length", [3, 700])
def test_causal_attention_sees_no_future(padded: bool, future: bool, length: int) -> None:
    """Outputs and gradients are those of a mask of T×T, also over more keys than a block of torch's kernel has."""
    q, k, v = random_heads(2, 2, queries=length, keys=length, channels=4)
    padding = torch.zeros(2, length, dtype=torch.bool)
    padding[0, -1] = padding[1, 0] = True
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    hidden = (hidden.T if future else hidden) | (padding[:, None, None] & padded)
    sees = ~hidden.all(-1, keepdim=True)
    wanted = attention_by_products(q, k, v, hidden, scaling=0.5).where(sees, 0)
    found = dense.causal_attention(q, k, v, padding if padded else None, scaling=0.5, future=future).where(sees, 0)
    torch.testing.assert_close(found, wanted)
    gradients = (torch.autograd.grad(out.square().sum(), (q, k, v)) for out in (found, wanted))
    for by_found, by_wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(by_found, by_wanted)


def test_the_future_is_skipped_in_long_texts_alone() -> None:
    """Not beside dropout, which torch's kernel lacks, and not where products are asked for."""
    q = torch.empty(1, 1, 1024, 4)
    assert dense.can_skip_future(q, q, dropout=0.0, implementation="auto")
    assert not dense.can_skip_future(q, q, dropout=0.1, implementation="auto")
    assert not dense.can_skip_future(q, q, dropout=0.0, implementation="products")
    assert not dense.can_skip_future(q[:, :, :512], q[:, :, :512], dropout=0.0, implementation="auto")
    assert not dense.can_skip_future(q[:, :, :1], q, dropout=0.0, implementation="auto")


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_attention_with_its_weights(dropout: float) -> None:
    """Products and torch's own steps give the same weights, output and gradients, also through the weights alone."""
    given, probe = random_heads(2, 3, queries=6, keys=6, channels=5), torch.randn(2, 3, 6, 5, dtype=torch.double)
    hidden = torch.zeros(2, 1, 1, 6, dtype=torch.bool)
    hidden[0, ..., :2] = True
    bias = torch.zeros(2, 3, 6, 6, dtype=torch.double, requires_grad=True)
    rules: dict[str, Any] = {"hidden": hidden, "bias": bias, "scaling": 0.5, "dropout": dropout}
    results: list[list[Tensor]] = []
    for implementation in ("products", "sdpa"):
        torch.manual_seed(3)
        out, weights = attention_and_weights(*given, **rules, implementation=implementation)
        results.append([out, weights])
        for loss in (weights.square().sum(), weights.square().sum() + (out * probe).sum()):
            leaves = (*given, bias)
            results[-1] += torch.autograd.grad(loss, leaves, retain_graph=True, materialize_grads=True)
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted)
