"""Which attentions of a model are drawn, and their weights and soft masks for one sentence pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UsageError
from ...grammar.placement import SITES
from ...mechanisms.windowed import WindowAttention
from ..attention_weights import (
    Sublayer,
    collect_masks,
    collect_weights,
    cross_attentions,
    masked_parts,
    self_attentions,
)
from ..evaluation import Trained
from .pairs import Pair, tokens_of
from .plot import Panel

Attentions = Mapping[Sublayer, nn.Module]
PLAIN = "san"  # the kind of an attention without a mechanism
BY_INTEREST = ("cross", "encoder", "decoder")  # which site is drawn where several have a mechanism
SITE_NAMES = {
    "encoder": "self-attention of the encoder",
    "decoder": "self-attention of the decoder",
    "cross": "attention to the encoder",
}


def site_attentions(model: nn.Module, site: str) -> dict[Sublayer, nn.Module]:
    """Return all attentions at a site."""
    return cross_attentions(model) if site == "cross" else self_attentions(model, [site])


def window_layers(attentions: Attentions) -> list[int]:
    """Return the numbers of the layers with windows, alone or in a composition, in order."""
    parts = ((at.layer, part) for at, module in attentions.items() for _, part in masked_parts(module))
    return sorted({layer for layer, part in parts if isinstance(part, WindowAttention)})


def own_layers(attentions: Attentions) -> list[int]:
    """Return the numbers of the layers with windows; without any, of those with another mechanism."""
    return window_layers(attentions) or sorted({at.layer for at in attentions if at.kind != PLAIN})


def common_site(models: Sequence[nn.Module]) -> str:
    """Return the first site of BY_INTEREST with windows in any model, else the first with another mechanism.

    Without any mechanism it is cross.
    """
    order = [[site_attentions(model, site) for model in models] for site in BY_INTEREST]
    for layers in (window_layers, own_layers):
        for site, attentions in zip(BY_INTEREST, order, strict=True):
            if any(map(layers, attentions)):
                return site
    return BY_INTEREST[0]


def common_layer(models: Sequence[nn.Module], site: str) -> int:
    """Return the highest layer with windows in every model that has windows at the site, else with a mechanism.

    Without either in any model, it is the highest layer that all models have. Raises UsageError if there is none.
    """
    attentions = [site_attentions(model, site) for model in models]
    layers = [set(found) for found in map(own_layers, attentions) if found]
    common = set.intersection(*(layers or [{at.layer for at in found} for found in attentions]))
    if not common:
        raise UsageError(f"--site {site}: no layer will do for all checkpoints; give --layer, or one --path at a time")
    return max(common)


def select(model: nn.Module, site: str, layer: int, head: str, *, name: str) -> dict[Sublayer, nn.Module]:
    """Return the attentions of a layer at a site.

    Args:
        model: a Transformer. site: one of SITES. layer: from 1.
        head: a number from 1, or ``mean``; only checked here.
        name: of the checkpoint, for error messages.

    Raises UsageError for a layer beyond the stack, without such attention, or without windows in a model that has
    windows, and for a head that does not exist.
    """
    stack = "encoder" if site == "encoder" else "decoder"
    depth = len(getattr(model, stack).layers)
    if not 1 <= layer <= depth:
        raise UsageError(f"--layer {layer}: the {stack} of {name} has the layers 1 to {depth}")
    found = {at: module for at, module in site_attentions(model, site).items() if at.layer == layer}
    if not found:
        raise UsageError(f"--site {site}: {name} has no {SITE_NAMES[site]} in layer {layer}")
    windows = {place: window_layers(site_attentions(model, place)) for place in SITES}
    if any(windows.values()) and layer not in windows[site]:
        places = "; ".join(f"--site {at} --layer {', '.join(map(str, ls))}" for at, ls in windows.items() if ls)
        raise UsageError(f"--site {site} --layer {layer}: {name} has no window there, but at {places}")
    for module in found.values():
        heads: Any = module.num_heads
        if head != "mean" and int(head) > heads:
            raise UsageError(f"--head {head}: {name} has the heads 1 to {heads} there")
    return found


def run_model(trained: Trained, pair: Pair, attentions: Attentions) -> tuple[dict[Sublayer, Tensor], ...]:
    """Run a model on one pair. Returns the weights and the soft masks of these attentions, H×T×S each, on the CPU.

    A head without a soft mask is NaN in the masks, and an attention without one is not in them.
    """
    model, device = trained.model, trained.device
    inputs = {
        "src_tokens": pair.source[None].to(device),
        "src_lengths": torch.tensor([len(pair.source)], device=device),
        "prev_output_tokens": pair.read[None].to(device),
    }
    if pair.phrases is not None:
        inputs["src_phrases"] = pair.phrases.to(device)
    with collect_weights(attentions, by_head=True) as weights, collect_masks(attentions) as masks:
        with torch.inference_mode():
            model(**inputs, features_only=True)
    return tuple({at: values[0].float().cpu() for at, values in found.items()} for found in (weights, masks))


def read_panels(
    trained: Trained, pair: Pair, attentions: Attentions, site: str, *, head: str, name: str
) -> Iterator[Panel]:
    """Yield the maps of these attentions for one pair: the soft mask of each that has one there, and the weights."""
    weights, masks = run_model(trained, pair, attentions)
    queries, keys = tokens_of(trained, pair, site)
    for at, attention in weights.items():
        for what, heads in (("mask", masks.get(at)), ("attention", attention)):
            if heads is None:
                continue
            values = heads[~heads.isnan().flatten(1).all(dim=1)].mean(dim=0) if head == "mean" else heads[int(head) - 1]
            if not values.isnan().all():  # the head has a mask
                yield Panel(
                    checkpoint=name,
                    site=site,
                    layer=at.layer,
                    sublayer=at.name,
                    kind=at.kind,
                    head=head,
                    what=what,
                    queries=queries,
                    keys=keys,
                    values=values,
                )
