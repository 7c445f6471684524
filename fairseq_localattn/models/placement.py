"""Where a variant's attention stands: sites (encoder, decoder, cross) and layers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import UsageError

# Self-attention of the encoder, self-attention of the decoder, attention from decoder to encoder.
SITES = ("encoder", "decoder", "cross")


def parse_layers(text: str, flag: str, layers: Iterable[int], depth: int | None = None) -> frozenset[int]:
    """0-based layers from ``all``, ``none``, or numbers and ranges from 1 (the lowest) such as ``1-3`` or ``1,4-6``.

    ``layers``: those that there are. ``depth``: the number of layers of the stack, None where layers were taken out of
    it. Raises UsageError, naming ``flag``, for anything else, and for layers beyond the stack.
    """
    text = text.strip().lower()
    if text == "none":
        return frozenset()
    if text == "all":
        return frozenset(layers)
    chosen: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            raise UsageError(f"{flag} {text}: give all, none, or layers from 1 as in 1-3 or 1,4-6")
        chosen.update(range(first - 1, last))
    if depth is not None and max(chosen) >= depth:
        raise UsageError(f"{flag} is {text}: layer {max(chosen) + 1} is asked for, and the stack has {depth}")
    return frozenset(chosen)


@dataclass(frozen=True)
class Placement:
    """The layers (0-based) of each site that have the variant's attention; all others have ordinary attention."""

    layers: dict[str, frozenset[int]] = field(default_factory=dict)

    def has(self, site: str, layer: int) -> bool:
        return layer in self.layers.get(site, frozenset())

    @property
    def sites(self) -> list[str]:
        """Sites that have at least one such layer."""
        return [site for site in SITES if self.layers.get(site)]


def layer_numbers(depth: int, keep: str | Iterable[int] | None) -> Iterable[int]:
    """Numbers of the layers that are built, in order: fairseq's ``--encoder-layers-to-keep`` leaves some out.

    ``keep``: text from fairseq's overrides, numbers from its command line.
    """
    if not keep:
        return range(depth)
    return sorted(int(layer) for layer in (keep.split(",") if isinstance(keep, str) else keep))
