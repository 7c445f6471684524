"""What the heads of an attention are called in pictures and pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from ..core.composed import GroupedAttention, JointAttention
from ..mechanisms.gaussian import GaussianAttention
from ..mechanisms.mixed import MixedAttention
from ..mechanisms.phrasal import MultiGranularityAttention


def head_names(module: Any, phrases: Sequence[str] = ()) -> list[str]:
    """Return what kind each head of an attention is, such as ``global``, ``local(window=2)``, ``dman``.

    ``phrases`` names the granularities of the encoder's phrases, in their order.
    """
    if isinstance(module, GroupedAttention):
        return [name for part in module.members() for name in head_names(part, phrases)]
    if isinstance(module, JointAttention):
        parts = [head_names(part, phrases) for part in module.members()]
        return [" & ".join(names) for names in zip(*parts, strict=True)]
    if isinstance(module, MixedAttention):
        return [f"local(window={module.window})" if kind == "local" else kind for kind in module.head_kinds]
    if isinstance(module, MultiGranularityAttention):
        return ["words"] * module.word_heads + [phrases[index] for index in module.granularities]
    if isinstance(module, GaussianAttention):
        return ["global"] * (module.num_heads - module.local_heads) + ["gauss"] * module.local_heads
    kind = getattr(module, "kind", "san")
    return ["global" if kind == "san" else kind] * module.num_heads


def phrase_names(model: nn.Module) -> list[str]:
    """Return the names of the granularities of a model's phrases; empty without phrases."""
    encoder: Any = getattr(model, "encoder", None)
    form = "tree, level {}" if getattr(encoder, "needs_phrases", False) else "{}-grams"
    return [form.format(each) for each in getattr(encoder, "granularities", ())]
