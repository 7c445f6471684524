"""Padding masks that are passed without being read, as on a GPU, against those that fairseq leaves out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fairseq_localattn.models import transformer
from fairseq_localattn.models.unread import with_unread_padding
from support.models import TINY, batch, build, with_phrases


def unread(tokens: Tensor) -> Tensor:
    """Return what :func:`with_unread_padding` returns on a GPU."""
    return with_unread_padding(_Elsewhere(tokens))  # type: ignore[arg-type]


class _Elsewhere:
    """Tokens that are not on a CPU."""

    device = torch.device("meta")

    def __init__(self, tokens: Tensor) -> None:
        self.as_subclass = tokens.as_subclass


@pytest.mark.parametrize("arch", TINY)
def test_masks_that_hide_nothing_change_nothing(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs and gradients are equal, with the mask and without, and masks are ordinary tensors in the layers."""
    model = build(arch).double().eval()
    masks: list[Tensor | None] = []
    for layer in (model.encoder.layers[-1], model.decoder.layers[-1]):
        for name in ("self_attn", "encoder_attn"):
            if getattr(layer, name, None) is not None:
                watch = lambda _, args, kwargs: masks.append(kwargs["key_padding_mask"])  # noqa: E731
                getattr(layer, name).register_forward_pre_hook(watch, with_kwargs=True)
    found = []
    for passed in (False, True):
        if passed:
            monkeypatch.setattr(transformer, "with_unread_padding", unread)
        model.zero_grad()
        out, _ = model(**with_phrases(model, batch([6, 6], [5, 5])["net_input"]))
        out.square().sum().backward()
        found.append([out, *(p.grad for p in model.parameters() if p.grad is not None)])
    assert masks[0] is None and all(type(mask) is Tensor and not mask.any() for mask in masks[len(masks) // 2 :])
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-10)


def test_only_the_question_is_not_read() -> None:
    tokens = torch.tensor([[1, 4], [5, 6]])
    assert with_unread_padding(tokens) is tokens, "on a CPU"
    mine = unread(tokens)
    padding = mine.eq(1)
    some = padding.any()
    assert some and some.type_as(torch.ones(1)) == 1
    assert type(mine) is type(padding) is Tensor and torch.equal(padding, tokens.eq(1))
    none = unread(tokens).eq(9).any()
    assert none and none.type_as(torch.ones(1)) == 0, "the number is that of the mask"
