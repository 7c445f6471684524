"""Attention composed of several mechanisms, on the same heads or each on heads of its own, under joint projections.

A part is a :class:`LocalAttention` built with ``part=True``: it has the parameters of its mechanism and none of the
four projections. The composed attention projects once for all parts, and gives each its heads.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate
from typing import TypeVar

import torch
from torch import Tensor, nn

from ..kernels.masks import Frame, at_least_fp32
from ..kernels.windows import Score, Window
from .attention import LocalAttention
from .call import Call
from .decoding import IncrementalState
from .steps import SCORING

Item = TypeVar("Item")
# Called with LocalAttention's arguments by keyword; returns an attention, or a part of one.
Maker = Callable[..., LocalAttention]


class ComposedAttention(LocalAttention):
    """The base class of both compositions: holds the parts, and projects for all of them.

    The names of the parts' extra projections are ``parts.<number>.<name>``.
    """

    def __init__(self, embed_dim: int, num_heads: int, **kwargs: object) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        self._options = {name: kwargs[name] for name in kwargs if name not in ("head_dim", "part", "activation")}
        self.parts = nn.ModuleList()

    def add_part(self, make: Maker, heads: int) -> None:
        """Build and add a part with this number of heads."""
        at = f"parts.{len(self.parts)}."
        part = make(self.embed_dim, heads, head_dim=self.head_dim, part=True, **self._options)
        self.parts.append(part)
        self.extra_queries += tuple(at + name for name in part.extra_queries)
        self.extra_keys += tuple(at + name for name in part.extra_keys)

    def members(self) -> Iterator[LocalAttention]:
        """Yield the parts."""
        for part in self.parts:
            assert isinstance(part, LocalAttention)
            yield part

    def project_heads(self, x: Tensor, names: Sequence[str], state: IncrementalState | None = None) -> list[Tensor]:
        """Apply the named linear layers to x, T×B×C; those of each part in one product."""
        own = [name for name in names if not name.startswith("parts.")]
        found = dict(zip(own, super().project_heads(x, own, state) if own else [], strict=True))
        for number, part in enumerate(self.members()):
            short = _of_part(names, number)
            if short:
                found |= zip(short, part.project_heads(x, list(short.values()), state), strict=True)
        return [found[name] for name in names]

    def call_of(self, number: int, call: Call) -> Call:
        """Return the call for one part: its entries ``parts.<number>.<name>`` of ``extra``, renamed to ``<name>``."""
        own = _of_part(call.extra, number)
        return replace(call, extra={short: call.extra[name] for name, short in own.items()}) if call.extra else call

    def calls(self, call: Call) -> Iterator[tuple[LocalAttention, Call]]:
        """Yield the parts, each with its call."""
        for number, part in enumerate(self.members()):
            yield part, self.call_of(number, call)


def _of_part(names: Sequence[str] | Mapping[str, Tensor], number: int) -> dict[str, str]:
    """Return name → name in the part, for the names that belong to a part."""
    at = f"parts.{number}."
    return {name: name.removeprefix(at) for name in names if name.startswith(at)}


class JointAttention(ComposedAttention):
    """Several mechanisms on the same heads: windows intersect, biases add, reweightings follow each other.

    Args:
        makers: build the mechanisms.
        names: what errors call them; by default their kinds.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`.

    Raises ValueError for a mechanism that computes the whole attention beside one that changes its scores or weights,
    and for one that encodes positions in queries and keys beside one that reads these for other terms.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, *, makers: Sequence[Maker], names: Sequence[str] = (), **kwargs: object
    ) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)
        for make in makers:
            self.add_part(make, num_heads)
        called = dict(zip(self.members(), names or [part.kind for part in self.members()], strict=True))
        scoring = [n for n, part in enumerate(self.members()) if part.whole or any(map(part.has, SCORING))]
        whole = next((part for part in self.members() if part.whole), None)
        if whole is not None and len(scoring) > 1:
            others = " and ".join(called[part] for part in self.members() if part is not whole)
            raise ValueError(
                f"{called[whole]} computes its heads' attention as a whole: {others} cannot act on the same heads"
            )
        turning = next((called[part] for part in self.members() if part.has("encode_positions")), None)
        reading = next((called[part] for part in self.members() if part.reads_projections), None)
        if turning and reading:
            raise ValueError(
                f"{reading} reads the queries or keys, which {turning} turns by their positions, padding included: "
                "they cannot act on the same heads"
            )
        # The one part that scores may have a faster computation of its own; of several, the steps are combined.
        self._scoring = scoring[0] if len(scoring) == 1 else None
        self.kind = "&".join(part.kind for part in self.members())  # type: ignore[misc]

    def has(self, step: str) -> bool:
        """Return whether any mechanism overrides a step."""
        return any(part.has(step) for part in self.members())

    @property
    def said_by_steps(self) -> bool:
        return all(part.said_by_steps for part in self.members())

    def encode_positions(self, q: Tensor, k: Tensor, first: int) -> tuple[Tensor, Tensor]:
        for part in self.members():
            q, k = part.encode_positions(q, k, first)
        return q, k

    def activate(self, heads: Tensor) -> Tensor:
        for part in self.members():
            heads = part.activate(heads)
        return super().activate(heads)

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        if self._scoring is None:
            return super().attend(call, need_weights)
        own = self.call_of(self._scoring, call)
        return self.parts[self._scoring].attend(own, need_weights)  # type: ignore[operator]

    def attend_by_kernel(self, call: Call) -> Tensor | None:
        if self._scoring is None:
            return None
        return self.parts[self._scoring].attend_by_kernel(self.call_of(self._scoring, call))  # type: ignore[operator]

    @property
    def own_scores(self) -> int:
        return sum(part.own_scores for part in self.members())

    def prepare(self, call: Call) -> Mapping[str, Tensor]:
        found: dict[str, Tensor] = {}
        for number, part in enumerate(self.members()):
            own = part.prepare(self.call_of(number, call))
            found |= {f"parts.{number}.{name}": tensor for name, tensor in own.items()}
        return found

    def score_bias(self, call: Call) -> Tensor | None:
        found = [bias for part, own in self.calls(call) if (bias := part.score_bias(own)) is not None]
        return reduce(operator.add, found) if found else None

    def hidden_keys(self, frame: Frame, device: torch.device) -> Tensor | None:
        found = [hidden for part in self.members() if (hidden := part.hidden_keys(frame, device)) is not None]
        return reduce(operator.or_, found) if found else None

    def windows(self) -> tuple[Window, ...] | None:
        return _all_of(part.windows() for part in self.members())

    def reweight(self, weights: Tensor, call: Call) -> Tensor:
        for part, own in self.calls(call):
            weights = part.reweight(weights, own)
        return weights

    def add_values(self, attended: Tensor, weights: Tensor, call: Call) -> Tensor:
        for part, own in self.calls(call):
            attended = part.add_values(attended, weights, own)
        return attended

    def position_scores(self, call: Call) -> tuple[Score, ...] | None:
        return _all_of(part.position_scores(own) for part, own in self.calls(call))


def _all_of(found: Iterable[tuple[Item, ...] | None]) -> tuple[Item, ...] | None:
    """Return what all parts state; None if one of them states nothing."""
    total: tuple[Item, ...] = ()
    for each in found:
        if each is None:
            return None
        total += each
    return total


class GroupedAttention(ComposedAttention):
    """Groups of heads, each with a mechanism of its own.

    Args:
        groups: (number of heads, maker) of each group, in the order of the heads.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`.

    Raises ValueError if the groups do not have ``num_heads`` heads together.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, *, groups: Sequence[tuple[int, Maker]], **kwargs: object
    ) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)
        counts = [count for count, _ in groups]
        if sum(counts) != num_heads:
            raise ValueError(f"the groups have {sum(counts)} heads together, and there are {num_heads}")
        for count, make in groups:
            self.add_part(make, count)
        self.ranges = [slice(last - count, last) for count, last in zip(counts, accumulate(counts), strict=True)]
        self.kind = "+".join(part.kind for part in self.members())  # type: ignore[misc]

    said_by_steps = False  # each group attends by itself

    def encode_positions(self, q: Tensor, k: Tensor, first: int) -> tuple[Tensor, Tensor]:
        if not any(part.has("encode_positions") for part in self.members()):
            return q, k
        encoded = [part.encode_positions(q[:, at], k[:, at], first) for at, part in self._with_heads()]
        queries, keys = zip(*encoded, strict=True)
        return torch.cat(queries, dim=1), torch.cat(keys, dim=1)

    def activate(self, heads: Tensor) -> Tensor:
        parts = list(self.members())
        if any(part.activation != "none" or type(part).activate is not LocalAttention.activate for part in parts):
            slices = heads.split([part.inner_dim for part in parts], dim=-1)
            heads = torch.cat([part.activate(x) for part, x in zip(parts, slices, strict=True)], dim=-1)
        return super().activate(heads)

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        attended: list[Tensor] = []
        weights: list[Tensor] = []
        for number, (at, part) in enumerate(self._with_heads()):
            found, weight = part.attend_heads(self.call_of(number, call.heads(at)), need_weights)
            attended.append(found)
            if weight is not None:
                weights.append(weight.to(at_least_fp32(weight.dtype)))
        return torch.cat(attended, dim=1), torch.cat(weights, dim=1) if need_weights else None

    def blind_queries(self, call: Call) -> None:
        """Return None: each group clears its own heads."""
        return None

    def _with_heads(self) -> Iterator[tuple[slice, LocalAttention]]:
        """Yield each part with its heads."""
        yield from zip(self.ranges, self.members(), strict=True)
