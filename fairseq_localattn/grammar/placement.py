"""Placement of a variant's attention: its sites (encoder, decoder, cross) and its layers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError

#: Self-attention of the encoder, self-attention of the decoder, attention of the decoder to the encoder.
SITES = ("encoder", "decoder", "cross")


def parse_layers(text: str, flag: str, layers: Iterable[int], depth: int | None = None) -> frozenset[int]:
    """Return 0-based layers from ``all``, ``none``, or numbers and ranges from 1 (the lowest) as in ``1,4-6``.

    Args:
        text: the value of the option.
        flag: the option's name, for the error message.
        layers: the layers that exist, which ``all`` stands for.
        depth: number of layers of the whole stack; None for a pruned stack, whose layers keep their numbers.

    Raises UsageError for any other text and for layers beyond the stack.
    """
    text = text.strip().lower()
    if text == "none":
        return frozenset()
    if text == "all":
        return frozenset(layers)
    ranges = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= first <= last:
            raise UsageError(f"{flag} {text}: give all, none, or layers from 1 as in 1-3 or 1,4-6")
        ranges.append(range(first - 1, last))  # not a list of its numbers, which may be billions
    highest = max(numbers[-1] for numbers in ranges)
    if depth is not None and highest >= depth:
        raise UsageError(f"{flag} is {text}: layer {highest + 1} is asked for, and the stack has {depth}")
    return frozenset(layer for layer in layers if any(layer in numbers for numbers in ranges))


def ranges_of(layers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return 0-based layers as ranges of numbers from 1, both ends included: 1 to 3 and 6 to 6 for 0, 1, 2 and 5."""
    numbers = sorted(layers)
    starts = [n + 1 for n in numbers if n - 1 not in numbers]
    ends = [n + 1 for n in numbers if n + 1 not in numbers]
    return tuple(zip(starts, ends, strict=True))


def written(ranges: Iterable[tuple[int, int]]) -> str:
    """Return ranges of layers as text: ``1-3,6``."""
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


@dataclass(frozen=True)
class Placement:
    """The layers (0-based) of each site that have the variant's attention; all others have ordinary attention."""

    layers: dict[str, frozenset[int]] = field(default_factory=dict)

    @property
    def sites(self) -> list[str]:
        """The sites that have the variant's attention in at least one layer."""
        return [site for site in SITES if self.layers.get(site)]


def kept_layers(depth: int, keep: str | Iterable[int] | None) -> Iterable[int]:
    """Return the numbers (from 0, ascending) of the layers that are built of a stack of ``depth`` layers.

    ``keep`` is fairseq's ``--encoder-layers-to-keep``: text from its overrides, numbers from its command line, None for
    all layers.
    """
    if not keep:
        return range(depth)
    try:
        kept = sorted(int(layer) for layer in (keep.split(",") if isinstance(keep, str) else keep))
    except ValueError:
        raise UsageError(f"--…-layers-to-keep {keep}: give numbers of layers from 0, as in 0,2") from None
    if kept[0] < 0 or len(set(kept)) < len(kept):
        raise UsageError(f"--…-layers-to-keep {keep}: give different numbers of layers from 0, as in 0,2")
    return kept


def count_kept_layers(args: Any, stack: str) -> None:
    """Set the depth of a pruned ``stack`` in ``args``, and its ``…_layers_to_keep`` to the text that fairseq reads."""
    if keep := getattr(args, f"{stack}_layers_to_keep", None):
        kept = list(kept_layers(0, keep))
        setattr(args, f"{stack}_layers_to_keep", ",".join(map(str, kept)))
        setattr(args, f"{stack}_layers", len(kept))
