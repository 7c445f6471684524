"""The page of the heat maps: all layers and heads of trained models, in one HTML file that needs no network.

The file is ``page.html`` with the values inside, as JSON: whole thousandths, row by row, and :data:`HIDDEN` for
a weight of exactly 0. What comes from a model or a sentence is data there, never markup, and the page's own rules let
no script but its own run and nothing be loaded.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UsageError
from ...speed.runtime import texts_of
from ..attention_weights import Sublayer, masked_parts
from ..command import written
from ..head_names import head_names, phrase_names

TEMPLATE = "page.html"
MOST_VALUES = 5_000_000  # in a page, which has some 15 MB then
HIDDEN = -1
UNIT = 1000  # of which 1 is a weight of 1
MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})  # may stand in JSON's strings alone


def checkpoint_entry(
    name: str, architecture: str, model: nn.Module, sites: Mapping[str, Mapping[Sublayer, nn.Module]]
) -> dict[str, Any]:
    """Return what the page says of a model: the text of each site, and layer, kind and heads of each attention."""
    texts, phrases = texts_of(model), phrase_names(model)
    return {
        "name": name,
        "architecture": architecture,
        "texts": {site: texts.get(site, "all: san") for site in sites},
        "attentions": {
            site: [
                {"layer": at.layer, "name": at.name, "kind": at.kind, "heads": head_names(module, phrases)}
                for at, module in found.items()
            ]
            for site, found in sites.items()
        },
    }


def map_entries(
    attentions: Mapping[Sublayer, nn.Module], weights: Mapping[Sublayer, Tensor], masks: Mapping[Sublayer, Tensor]
) -> list[dict[str, Any]]:
    """Return the maps of a sentence in the order of ``attentions``, from weights and masks H×T×S (NaN: no mask).

    Raises UsageError for weights that are no numbers.
    """
    found = []
    for at in attentions:
        if not weights[at].isfinite().all():
            raise UsageError(f"the weights of {at.name} in {at.stack} layer {at.layer} are not finite")
        hidden = weights[at] == 0
        entry: dict[str, Any] = {"weights": thousandths(weights[at], hidden)}
        if at in masks:
            none = masks[at].isnan().flatten(1).all(dim=1).tolist()
            heads = thousandths(masks[at].nan_to_num(0.0), hidden)
            entry["masks"] = [None if empty else head for empty, head in zip(none, heads, strict=True)]
        found.append(entry)
    return found


def thousandths(values: Tensor, hidden: Tensor) -> list[Any]:
    """Return values as whole thousandths in nested lists, with :data:`HIDDEN` where ``hidden``."""
    listed: list[Any] = (values * UNIT).round().to(torch.int32).masked_fill(hidden, HIDDEN).tolist()
    return listed


def count_values(attentions: Mapping[Sublayer, nn.Module], queries: int, keys: int) -> int:
    """Return how many weights and values of masks a sentence's maps have."""
    heads: int = sum(module.num_heads for module in attentions.values())  # type: ignore[misc]
    for module in attentions.values():
        heads += len({first + n for first, part in masked_parts(module) for n in range(part.num_heads)})
    return heads * queries * keys


def check_size(values: int, path: Path) -> None:
    """Raise UsageError for more values than a page holds."""
    if values > MOST_VALUES:
        raise UsageError(
            f"--html {path}: {values:,} weights and masks, and a page holds {MOST_VALUES:,} (some 15 MB): "
            "give fewer or shorter sentences, one --path, or one --site"
        )


def document(data: Mapping[str, Any]) -> str:
    """Return the page of these data."""
    template = resources.files(__package__ or "").joinpath(TEMPLATE).read_text(encoding="utf-8")
    script = template.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    values = json.dumps(data, separators=(",", ":"), allow_nan=False).translate(MARKUP)
    before, _, after = template.replace("{{hash}}", digest).partition("{{data}}")
    return before + values + after


def save_page(data: Mapping[str, Any], path: Path) -> int:
    """Write the page, in place of an existing one, and return its size in bytes. Raises UsageError."""
    page = document(data).encode()
    with written(path) as part:
        part.write_bytes(page)
    return len(page)
