"""Soft masks and attention weights as they are read from running models."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fairseq_localattn.analysis import attention_weights as reading
from fairseq_localattn.analysis.attention_weights import Sublayer, collect_masks, collect_weights, self_attentions
from fairseq_localattn.analysis.evaluation import padding_masks
from fairseq_localattn.core.call import Call
from fairseq_localattn.kernels.masks import Frame
from fairseq_localattn.mechanisms.windowed import WindowAttention
from support.mechanisms.inputs import take_long_ways
from support.mechanisms.references import window_mask
from support.models import CASES, batch, build, case, dictionary

SAMPLE = batch([9, 4, 13, 1], [7, 11, 3, 5])["net_input"]
ONE = batch([12], [7])["net_input"]
# diffwin-segments: mw everywhere, segments of 3 in encoder and cross-attention, so that the last one is not full
WINDOWED = ["transformer_diffwin_tiny", "diffwin-segments"]


def all_attentions(model: nn.Module) -> dict[Sublayer, nn.Module]:
    return {**self_attentions(model), **reading.cross_attentions(model)}


def changes_of(model: nn.Module) -> int:
    """Count the hooks of a model, and the attributes that hide a method of what computes a soft mask."""
    steps = {step for step, _ in reading.MASKS.values()}
    changes = [(each._forward_hooks, each._forward_pre_hooks, steps & vars(each).keys()) for each in model.modules()]
    return sum(map(len, itertools.chain(*changes)))


def inputs_of(model: nn.Module, sample: dict[str, Tensor]) -> dict[nn.Module, tuple[Tensor, Tensor, dict[str, Any]]]:
    """Return query, key and keyword arguments of every attention in a forward pass."""
    calls: dict[nn.Module, tuple[Tensor, Tensor, dict[str, Any]]] = {}

    def record(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = {**dict(zip(("query", "key", "value"), args, strict=False)), **kwargs}
        query, key, _ = (given.pop(name) for name in ("query", "key", "value"))
        calls[module] = (query, key, given)

    handles = [at.register_forward_pre_hook(record, with_kwargs=True) for at in all_attentions(model).values()]
    with torch.no_grad():
        model(**sample)
    for handle in handles:
        handle.remove()
    return calls


def mask_by_hand(module: WindowAttention, query: Tensor, key: Tensor, causal: bool) -> Tensor:
    """Return the mask H×T×S of one sentence from the module's projections; query T×1×C, key S×1×C."""

    def heads(name: str, x: Tensor) -> Tensor:
        return getattr(module, name)(x[:, 0]).view(len(x), module.num_heads, -1).transpose(0, 1)

    pointers = []
    for side in ("left", "right"):
        scores = heads(f"{side}_q_proj", query) @ heads(f"{side}_k_proj", key).transpose(1, 2) * module.head_dim**-0.5
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores[0], dtype=torch.bool).triu(1), -torch.inf)
        pointers.append(scores.softmax(-1))
    rows = zip(*(p.flatten(0, 1) for p in pointers), strict=True)
    return torch.stack([window_mask(left, right, module.segment_size) for left, right in rows]).view_as(pointers[0])


@pytest.mark.parametrize("name", WINDOWED)
def test_masks_are_those_of_the_equations(name: str) -> None:
    """Eq. 9 and 11 by loops over the projections, in all three sites, and nothing for attentions without windows."""
    model = case(name)
    calls = inputs_of(model, ONE)
    attentions = all_attentions(model)
    with torch.no_grad(), collect_masks(attentions) as masks:
        model(**ONE)
    assert len(masks) == 3 and {at.layer for at in masks} == {1}
    for at, mask in masks.items():
        module: Any = attentions[at]
        query, key, _ = calls[module]
        wanted = mask_by_hand(module, query, key, causal=(at.stack, at.name) == ("decoder", "self_attn"))
        torch.testing.assert_close(mask[0], wanted, rtol=0, atol=1e-5)


MASKED = {
    "transformer_man_tiny": {"encoder dman": "dman", "decoder dman": "dman"},
    "transformer_localness_tiny": {"encoder self_attn": "gauss"},
    "localness-luong": {"encoder self_attn": "gauss", "decoder self_attn": "gauss", "decoder encoder_attn": "gauss"},
    "transformer_alibi_tiny": {"encoder self_attn": "alibi", "decoder self_attn": "alibi"},
    "transformer_mma_tiny": {},
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_of_other_mechanisms(name: str) -> None:
    """What multiplies: taking it away gives the weights of the scores alone, normalised again; the future is 0."""
    model = case(name)
    attentions = all_attentions(model)
    with torch.no_grad(), collect_masks(attentions) as masks, collect_weights(attentions, by_head=True) as weights:
        model(**ONE)
    assert {f"{at.stack} {at.name}": at.kind for at in masks} == MASKED[name]
    calls = inputs_of(model, ONE)
    for at, mask in masks.items():
        module: Any = attentions[at]
        query, key, more = calls[module]
        assert mask.shape == weights[at].shape
        assert mask.isnan().all(-1).all(-1).sum() == module.num_heads - getattr(module, "local_heads", module.num_heads)
        mask = mask.nan_to_num(1.0)  # heads without one
        assert mask.min() >= 0 and mask.max() <= 1 and mask.std() > 1e-3
        with torch.no_grad():
            q, k, _, _ = module.project(query, key, key)
        scores = q @ k.transpose(2, 3) * module.scaling
        if more.get("attn_mask") is not None:
            scores = scores + more["attn_mask"]
            assert masks[at].nan_to_num(0.0)[..., more["attn_mask"].isneginf()].max() == 0
        product = getattr(module, "cut", False) or "Product" in type(module).__name__
        if product:  # cut keys are hidden before the softmax, the others multiplied after it
            wanted = scores.masked_fill(mask == 0, -torch.inf).softmax(-1) * mask
        else:
            wanted = scores.exp() * mask / (scores.exp() * mask).sum(-1, keepdim=True)
        torch.testing.assert_close(weights[at], wanted, rtol=0, atol=1e-5)


def test_masks_of_composed_attention() -> None:
    """Heads without a mask are NaN; mechanisms on the same heads multiply."""
    text = "1*dman + 1*global + 2*(gauss(local_heads=1) & alibi)"
    model = build("transformer_hybrid_tiny", ["--localattn-encoder", text, "--localattn-decoder", "san"]).eval()
    attentions = all_attentions(model)
    with torch.no_grad(), collect_masks(attentions) as masks:
        model(**ONE)
    assert [at.stack for at in masks] == ["encoder"] * 2
    groups: Any = attentions[next(iter(masks))]
    dman, _, joint = groups.members()
    assert list(reading.masked_parts(groups)) == [(0, dman), (2, joint.parts[0]), (2, joint.parts[1])]
    mask = next(iter(masks.values()))[0]
    assert [bool(head.isnan().all()) for head in mask] == [False, True, False, False]
    assert not mask[[0, 2, 3]].isnan().any()
    slopes = joint.parts[1].score_bias(Call(Frame(12, 12), mask, q=mask, k=mask, v=mask))
    torch.testing.assert_close(mask[2], slopes[0].exp(), rtol=0, atol=1e-6)  # its Gaussian is on the next head alone
    bell = mask[3] / slopes[1].exp()
    assert bell.max() <= 1 + 1e-5 and bell.min() >= 0 and (bell - 1).abs().max() > 1e-3


@pytest.mark.parametrize("name", [*WINDOWED, "transformer_localattn_tiny", "transformer_man_tiny"])
def test_weights_are_those_that_the_attention_returns(name: str) -> None:
    """Self- and cross-attention, averaged and by head, against calls of each module alone."""
    model = case(name) if name in CASES else build(name).eval()
    calls, attentions = inputs_of(model, SAMPLE), all_attentions(model)
    with torch.no_grad(), collect_weights(attentions) as means:
        model(**SAMPLE)
    with torch.no_grad(), collect_weights(attentions, by_head=True) as heads:
        model(**SAMPLE)
    assert set(means) == set(heads) == set(attentions) and sum(at.name == "encoder_attn" for at in means) == 2
    for at, module in attentions.items():
        query, key, more = calls[module]
        with torch.no_grad():
            _, mean = module(query, key, key, **more | {"need_weights": True, "need_head_weights": False})
            _, each = module(query, key, key, **more | {"need_weights": True, "need_head_weights": True})
        torch.testing.assert_close(means[at], mean, rtol=0, atol=1e-6)
        torch.testing.assert_close(heads[at].mean(dim=1), mean, rtol=0, atol=1e-6)
        if each.dim() == 4:  # fairseq's self-attention returns the mean even so
            torch.testing.assert_close(heads[at], each.transpose(0, 1), rtol=0, atol=1e-6)
            assert not torch.allclose(heads[at][:, 0], heads[at][:, 1], atol=1e-3)


@pytest.mark.parametrize("name", ["diffwin-segments", "transformer_localattn_tiny"])
@pytest.mark.parametrize("by_head", [True, False])
def test_collecting_changes_nothing(name: str, by_head: bool) -> None:
    """Logits and returned cross-attention are equal before, during and after collecting; no hook is left."""
    model = case(name) if name in CASES else build(name).eval()
    attentions = all_attentions(model)
    with torch.no_grad():
        before, more = model(**SAMPLE)
        with collect_weights(attentions, by_head), collect_masks(attentions) as masks:
            with collect_masks(attentions) as inner:
                during, more_during = model(**SAMPLE)
            assert list(inner) == list(masks) and all(torch.equal(inner[at], masks[at]) for at in masks)
            inner.clear()
            model(**SAMPLE)
            assert not inner, "closed"
            assert changes_of(model) == 2 * len(attentions) + 4 * len(masks)
        after, _ = model(**SAMPLE)
    assert changes_of(model) == 0
    real = ~SAMPLE["prev_output_tokens"].eq(dictionary().pad())
    torch.testing.assert_close(during[real], before[real], rtol=0, atol=1e-5)
    torch.testing.assert_close(more_during["attn"][0][real], more["attn"][0][real], rtol=0, atol=1e-6)
    assert torch.equal(after[real], before[real])
    with pytest.raises(ZeroDivisionError), collect_weights(attentions, by_head), collect_masks(attentions):
        raise ZeroDivisionError
    assert changes_of(model) == 0


SAN, DMAN, MMA = ("self_attn", "san"), ("dman", "dman"), ("self_attn", "mma")


@pytest.mark.parametrize(
    ("arch", "flag", "encoder", "decoder"),
    [
        ("localattn", "--encoder-layerdrop=0.9", [SAN], [SAN]),
        ("mma", "--checkpoint-activations", [MMA], [SAN]),
        ("man", "--dropout=0", [DMAN, SAN], [DMAN, SAN]),
    ],
)
def test_every_self_attention_is_found(arch: str, flag: str, encoder: list, decoder: list) -> None:
    """In the order in which they run; keys without weight are the padding."""
    model = build(f"transformer_{arch}_tiny", [flag])
    attentions = self_attentions(model)  # still in training mode, in which LayerDrop hides layers
    with torch.no_grad(), collect_weights(attentions) as weights:
        model.eval()(**SAMPLE)
    stacks = {"encoder": encoder, "decoder": decoder}
    wanted = [Sublayer(stack, layer, *pair) for stack, pairs in stacks.items() for layer in (1, 2) for pair in pairs]
    assert list(weights) == wanted and set(attentions) == set(wanted)
    for at, found in weights.items():
        real = ~padding_masks(model, SAMPLE)[at.stack]
        assert torch.equal(found.gt(0).any(1), real)


def test_attention_without_a_length_of_its_own_is_left_out() -> None:
    """A decoder's attention to source and target at once is no self-attention."""
    model = build("transformer_localattn_tiny", ["--no-cross-attention", "--cross-self-attention"]).eval()
    assert {sublayer.stack for sublayer in self_attentions(model)} == {"encoder"}


def test_masks_are_collected_where_a_band_would_not_make_them(monkeypatch: pytest.MonkeyPatch) -> None:
    take_long_ways(monkeypatch)
    model = build("transformer_hybrid_tiny", ["--localattn-encoder", "local(window=2) & dman"]).eval()
    attentions = self_attentions(model, ["encoder"])
    with torch.no_grad(), collect_masks(attentions) as masks:
        model(**ONE)
    assert list(masks) == list(attentions) and all((0 < mask).all() and (mask < 1).all() for mask in masks.values())
