"""Layers that fairseq leaves out of a model (``--encoder-layers-to-keep``): each stack by itself, and only once."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fairseq import checkpoint_utils, models

from ..errors import UsageError
from .around import around

Weight = TypeVar("Weight")
STACKS = ("encoder", "decoder")


def prune(weights: Mapping[str, Weight], options: Any) -> dict[str, Weight]:
    """Return a model's weights without the layers that ``…_layers_to_keep`` leaves out, the others numbered from 0.

    A stack without the option stays whole, and so does one that has as many layers as are kept: it was trained so.
    Raises UsageError for a layer that the weights do not have.
    """
    found = dict(weights)
    for stack in STACKS:
        keep = getattr(options, f"{stack}_layers_to_keep", None)
        if not keep:
            continue
        kept = sorted(int(layer) for layer in (keep.split(",") if isinstance(keep, str) else keep))
        named = {name: re.match(rf"({stack}\b(?:.*?\.)?layers\.)(\d+)\.", name) for name in found}
        present = {int(match[2]) for match in named.values() if match}
        if len(present) <= len(kept):
            continue
        if missing := [layer for layer in kept if layer not in present]:
            raise UsageError(
                f"--{stack}-layers-to-keep {keep}: there is no layer {missing[0]}: the {stack} of the checkpoint has "
                f"0 to {max(present)}"
            )
        found = {
            name if match is None else f"{match[1]}{kept.index(int(match[2]))}{name[match.end(2) :]}": found[name]
            for name, match in named.items()
            if match is None or int(match[2]) in kept
        }
    return found


def apply() -> None:
    """Install it in fairseq; to be called once.

    fairseq drops all layers of a stack without the option, and prunes what was trained pruned a second time. Its
    Transformer reads the option as text, and its command line gives numbers.
    """

    @around(checkpoint_utils, "prune_state_dict")
    def prune_state_dict(before: Callable[..., Any], state_dict: dict[str, Any], model_cfg: Any) -> dict[str, Any]:
        pruned = prune(state_dict, model_cfg)
        before({}, model_cfg)  # clears the options, so that the model is saved as one of fewer layers
        return pruned

    @around(models, "build_model")
    def build_model(build: Callable[..., Any], cfg: Any, *args: Any, **kwargs: Any) -> Any:
        for name in (f"{stack}_layers_to_keep" for stack in STACKS):
            if isinstance(cfg, Namespace) and isinstance(keep := getattr(cfg, name, None), list):
                setattr(cfg, name, ",".join(map(str, keep)))
        return build(cfg, *args, **kwargs)
