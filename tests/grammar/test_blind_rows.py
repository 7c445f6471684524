"""Queries that see no key, with every word: values, weights and gradients are 0 in every implementation."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.grammar.words import WORDS
from fairseq_localattn.mechanisms.phrase_memory.partition import ngram_lengths, partition_of
from support.mechanisms.inputs import DIM, HEADS, compute_by, future, labelled, make, take_long_ways

LENGTH = 7
# Beside the words alone: options with computations of their own, and compositions.
MORE = ["csan(head_span=1, window=3)", "sman(boundary=none)", "gauss(cut=true, width=2)", "gauss(product=true)"]
MORE += ["mw(renormalise=true)", "local(window=2) & alibi", "local & shaw", "2*local + 2*csan(head_span=1)"]
SHORTER = {"ngram": "ngram(composition=max, interaction=none)", "tree": "tree(composition=max, interaction=none)"}
CASES = [
    (SHORTER.get(text, text), site)
    for text in [*WORDS, *MORE]
    for site in ("encoder", "decoder", "cross")
    if not any(WORDS[word].reason_against(site) for word in WORDS if word in text.replace("=", " ").split("(")[0])
]
every_case = pytest.mark.parametrize(("text", "site"), CASES)
PADDING = torch.tensor([[True] * 7, [True] * 2 + [False] * 5, [False] * 4 + [True] * 3])


def mask_of(kind: str, site: str) -> Tensor | None:
    """Return an ``attn_mask`` that hides everything from query 4, and all but far words from 1 and 5."""
    if kind == "none":
        return future(LENGTH) if site == "decoder" else None
    closed = future(LENGTH).isinf() if site == "decoder" else torch.zeros(LENGTH, LENGTH, dtype=torch.bool)
    closed[4] = True
    closed[1, :5] = closed[5, 2:] = True
    return closed if kind == "boolean" else 0.3 * torch.eye(LENGTH).double().masked_fill(closed, -torch.inf)


def call(module: LocalAttention, x: Tensor, site: str, mask: Tensor | None, **options: Any) -> Any:
    keys = x if site != "cross" else x.flip(0)
    given = {"key_padding_mask": PADDING, "attn_mask": mask, "need_weights": False, **options}
    phrases = nullcontext()
    if module.kind == "mgsa":
        lengths = ngram_lengths(PADDING, range(2, 2 + len(set(module.granularities))))  # type: ignore[arg-type]
        phrases = module.use_partition(partition_of(lengths, PADDING))  # type: ignore[operator]
    with phrases:
        return module(x, keys, keys, **given)


def attended(module: LocalAttention, site: str, mask: Tensor | None, x: Tensor) -> Tensor:
    return call(module, x, site, mask)[0]


def masks_for(text: str) -> tuple[str, ...]:
    """Return the masks that a text takes; a Gaussian's cut does not look for the nearest key that attn_mask shows."""
    return ("none",) if "block" in text or "cut" in text else ("none", "boolean", "added")


@every_case
def test_gradients_of_every_word(text: str, site: str) -> None:
    """gradcheck with a sentence that is all padding; all implementations agree, and rows that see nothing are 0."""
    module = make(text, site).double().train()
    x = torch.randn(LENGTH, 3, DIM, dtype=torch.double, requires_grad=True)
    for kind in masks_for(text):
        mask, wanted = mask_of(kind, site), None
        for implementation in ("products", "sdpa"):
            compute_by(module, implementation)
            for long in (False, True):
                with pytest.MonkeyPatch.context() as patch:
                    if long:
                        take_long_ways(patch)
                    assert gradcheck(partial(attended, module, site, mask), x, fast_mode=True)
                    out, leaves = attended(module, site, mask, x), [x, *module.parameters()]
                    found = [out, *torch.autograd.grad(out.square().sum(), leaves, allow_unused=True)]
                wanted = wanted or found
                for got, want in zip(found, wanted, strict=True):
                    if want is not None:
                        torch.testing.assert_close(got, want, msg=labelled(f"{kind} {implementation} {long}"))
        empty = module.out_proj(module.activate(torch.zeros(1, 1, DIM, dtype=torch.double)))[0, 0]
        assert torch.equal(out[:, 0], empty.expand(LENGTH, -1))
        if kind != "none" and module.kind != "mgsa":  # whose phrases attn_mask does not hide
            assert torch.equal(out[4], empty.expand(3, -1))
        again, weights = call(module, x, site, mask, need_head_weights=True)
        torch.testing.assert_close(again, out)
        assert (weights[:, 0] == 0).all() and (kind == "none" or (weights[: HEADS // 4, :, 4] == 0).all())


@pytest.mark.parametrize("text", [text for text, site in CASES if site == "decoder"])
def test_decoding_step_by_step(text: str) -> None:
    """With padding before the words, and a sentence that is all padding; the last words come at once."""
    module = make(text, "decoder").double()
    x = torch.randn(LENGTH, 3, DIM, dtype=torch.double)
    whole, _ = call(module, x, "decoder", future(LENGTH))
    state: dict[str, Any] = {}
    for start, end in pairwise((*range(LENGTH - 2), LENGTH)):
        step = {"incremental_state": state, "key_padding_mask": PADDING[:, start:end]}
        mask = future(LENGTH)[start:end, :end] if end - start > 1 else None
        out, weights = call(module, x[start:end], "decoder", mask, **step, need_head_weights=True)
        torch.testing.assert_close(out, whole[start:end])
        assert (weights[:, 0] == 0).all()
