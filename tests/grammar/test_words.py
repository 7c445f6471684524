"""What holds for attention by every word of the grammar."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairseq_localattn import attention
from fairseq_localattn.core import query_blocks
from fairseq_localattn.core.banded import BANDED_FROM
from fairseq_localattn.grammar.torch_module import DescribedAttention
from fairseq_localattn.kernels.dense import PRODUCTS_UP_TO, SKIPPED_FROM
from support.mechanisms.inputs import DIM, HEADS, Itself, LargestTensor, allow_tensors_without_data
from support.mechanisms.texts import HERE

MIXES = ["2*alibi + 2*t5", "alibi & local(window=3)", "2*(alibi & shaw) + 2*global", "t5 & local(window=3) & rope"]
EVERY = [(text, site) for site in HERE for text in HERE[site]]
EVERY += [(text, site) for text in MIXES for site in ("encoder", "decoder")]
OPTIONS = [("mw(segment_size=2)", "encoder"), ("aw(segment_size=3)", "cross"), ("gauss(width=keys)", "decoder")]
OPTIONS += [(text, "encoder") for text in ("gauss(product=true, cut=true)", "dman & shaw & local(window=2)", "aw + mw")]
# What counts positions or blocks from the first word, in forms beside the words alone.
BEGINNINGS = ["mw(segment_size=3)", "aw(segment_size=2)", "block(block_length=3)", "gauss(center=self, width=query)"]
BEGINNINGS += ["gauss(width=keys, hidden=linear)", "gauss(product=true, cut=true, width=2)"]
# Rotations keep products alone as they are: mechanisms that read a query or a key by itself are refused.
ROTATED = ["rope & gauss(center=self, width=head)", "rope & gauss(source=input)", "rope & t5"]
every_attention = pytest.mark.parametrize(("text", "site"), EVERY)


def run(module: DescribedAttention, x: Tensor, memory: Tensor, padded: bool = False) -> Tensor:
    """Return the output T×B×C; in a decoder's site with a causal mask, and padded on the left of the first sentence."""
    memory = memory if module.site == "cross" else x
    padding = torch.zeros(x.size(1), memory.size(0), dtype=torch.bool)
    padding[:1, :3] = True
    mask = {"key_padding_mask": padding} if padded else {}
    if module.site == "decoder":
        mask["attn_mask"] = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
    return module(x, memory, memory, need_weights=False, **mask)[0]


def inputs(queries: int, keys: int, batch: int = 2, **options: Any) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return tuple(torch.randn(n, batch, DIM, requires_grad=True, **options) for n in (queries, keys))  # type: ignore[return-value]


@pytest.mark.parametrize("padded", [False, True])
@every_attention
def test_none_leaves_torchs_fused_kernel(text: str, site: str, padded: bool) -> None:
    """Without the kernel that is no kernel, torch raises an error where it would leave its fused one."""
    module = attention(text, DIM, HEADS, site=site)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        run(module, *inputs(PRODUCTS_UP_TO + 1, PRODUCTS_UP_TO + 1), padded=padded).sum().backward()
        for length in (PRODUCTS_UP_TO + 1, max(BANDED_FROM, SKIPPED_FROM) + 1):
            with torch.no_grad():
                run(module.eval(), *inputs(length, length), padded=padded)


@pytest.mark.parametrize("text", [*HERE["encoder"], *BEGINNINGS, *ROTATED])
def test_padding_on_both_sides_changes_nothing(text: str) -> None:
    """Centres, blocks and segments begin at the first word, wherever it stands."""
    module = attention(text, DIM, HEADS).double().eval()
    x, around = inputs(7, 6, batch=1, dtype=torch.double)
    wide = torch.cat([around[:4], x, around[4:]])
    padding = torch.tensor([[True] * 4 + [False] * 7 + [True] * 2])
    for got, wanted in zip(module(wide, wide, wide, key_padding_mask=padding), module(x, x, x), strict=True):
        inside = got[4:11] if got.shape == wide.shape else got[:, 4:11, 4:11]
        torch.testing.assert_close(inside, wanted)


@pytest.mark.parametrize("text", [*HERE["encoder"], *BEGINNINGS])
def test_no_value_is_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both passes run on tensors without data, so nothing waits for a GPU."""
    allow_tensors_without_data(monkeypatch)
    module = attention(text, DIM, HEADS, dropout=0.1, device="meta")
    x, padding = torch.empty(7, 3, DIM, device="meta"), torch.empty(3, 7, dtype=torch.bool, device="meta")
    module(x, x, x, key_padding_mask=padding, need_weights=False)[0].sum().backward()
    assert all(p.grad is not None for p in module.parameters())


@every_attention
def test_second_derivatives_are_refused(text: str, site: str) -> None:
    """Not returned without the part of the attention, as with torch's ``once_differentiable``."""
    module, (x, memory) = attention(text, DIM, HEADS, site=site), inputs(5, 5)
    with pytest.raises(RuntimeError, match="has no second derivative: take first derivatives alone"):
        torch.autograd.functional.hvp(lambda z: (z + run(module, z, memory)).square().sum(), x, x)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("text", "site"), EVERY + OPTIONS)
def test_blocks_of_queries_are_the_whole(text: str, site: str, padded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs and gradients, where a block has 3 of 11 queries."""
    module = attention(text, DIM, HEADS, site=site).double()
    results = []
    for blocks in (False, True):
        if blocks:
            monkeypatch.setattr(query_blocks, "MEMORY", 0)
            monkeypatch.setattr(query_blocks, "LEAST", 3)
        x, memory = inputs(11, 11 if site != "cross" else 7, dtype=torch.double)
        module.zero_grad()
        out = run(module, x, memory, padded)
        (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
        with torch.no_grad():
            torch.testing.assert_close(run(module, x, memory, padded), out)
        results.append([out, x.grad, memory.grad, *(p.grad for p in module.parameters())])
    for got, wanted in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-10)


def test_a_long_text_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both passes over 16,384 tokens with 8 heads; one tensor of all scores is 8 GiB."""
    allow_tensors_without_data(monkeypatch)
    module, x = attention("shaw", 64, 8, device="meta"), torch.empty(1 << 14, 1, 64, device="meta", requires_grad=True)
    with LargestTensor() as largest:
        module(x, x, x, need_weights=False)[0].sum().backward()
    assert 4 * largest.size <= query_blocks.MEMORY


@every_attention
def test_nothing_is_attended_to(text: str, site: str) -> None:
    """Empty sentences, batches and sequences of keys have outputs and gradients."""
    module = attention(text, DIM, HEADS, site=site)
    sizes = [(0, 0, 2), (3, 3, 0), (0, 0, 0), *([(0, 4, 2), (3, 0, 2)] if site == "cross" else [])]
    for (queries, keys, batch), padded, weights in product(sizes, (False, True), (False, True)):
        x, memory = inputs(queries, keys, batch)
        memory = memory if site == "cross" else x
        padding = torch.zeros(batch, keys, dtype=torch.bool) if padded else None
        mask = torch.ones(queries, keys, dtype=torch.bool).triu(1) if site == "decoder" else None
        out, found = module(x, memory, memory, key_padding_mask=padding, need_weights=weights, attn_mask=mask)
        assert out.shape == x.shape and out.isfinite().all()
        assert not weights or (found is not None and found.shape == (batch, queries, keys))
        out.sum().backward()


@pytest.mark.parametrize("text", [word for word in HERE["encoder"] if word not in ("csan", "shaw", "block")])
def test_a_traced_attention_takes_other_lengths(text: str) -> None:
    module = Itself(attention(text, DIM, HEADS).eval())
    with torch.no_grad():
        module(x := torch.randn(12, 2, DIM))
        traced = torch.jit.trace(module, x)
        for shape in ((12, 3, DIM), (20, 2, DIM), (7, 1, DIM)):
            x = torch.randn(shape)
            torch.testing.assert_close(traced(x), module(x))
