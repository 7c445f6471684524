"""Mixed multi-head self-attention: global, local, forward and backward heads (MMA, Cui et al., WNGT 2019).

``ATT(Q, K, V) = softmax(e_i + M_i) V`` (Eq. 7), where the mask M of a head is 0 for the keys that its kind sees and -∞
for all others (Eq. 8-11), and ``MA = Concat(head_G, head_L, head_F, head_B) W^O``. No parameters are added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

import torch
from torch import Tensor

from ..core import banded
from ..core.attention import LocalAttention
from ..core.call import Call
from ..kernels.flex import PositionTerms, Window, distance_window
from ..kernels.kept import kept
from ..kernels.masks import Frame, hidden_and_bias
from ..kernels.windows import HEAD_KINDS, bounds_of_kind, relative_positions, window_of_kind


def parse_head_mix(mix: str, heads: int) -> tuple[str, ...]:
    """Return the kind of each head from ``global:2,local:2`` (counts) or ``global,local`` (equal shares).

    >>> parse_head_mix("global:1,local:3", 4)
    ('global', 'local', 'local', 'local')

    Raises ValueError for an unknown kind, a missing count or one below 1, and numbers that do not make up ``heads``.
    """
    parts = [part.strip().partition(":") for part in mix.split(",")]
    for kind, _, _ in parts:
        if kind not in HEAD_KINDS:
            raise ValueError(f"unknown kind of head {kind!r} in {mix!r}: choose from {', '.join(HEAD_KINDS)}")
    if not any(colon for _, colon, _ in parts):
        if heads % len(parts):
            raise ValueError(f"{len(parts)} kinds of head in {mix!r} do not share {heads} heads equally: give counts")
        return tuple(kind for kind, _, _ in parts for _ in range(heads // len(parts)))
    counts = []
    for kind, _, count in parts:
        if not count.isdecimal() or int(count) < 1:
            raise ValueError(f"{kind!r} in {mix!r} needs a count of heads, as in 'global:1,local:3'")
        counts.append(int(count))
    if sum(counts) != heads:
        raise ValueError(f"the head mix {mix!r} has {sum(counts)} heads, the model has {heads}")
    return tuple(kind for (kind, _, _), count in zip(parts, counts, strict=True) for _ in range(count))


class MixedAttention(LocalAttention):
    """Self-attention whose heads see different keys.

    Args:
        head_kinds: ``global``, ``local``, ``forward`` or ``backward`` for each head.
        window: w of Eq. 9, the greatest distance of keys that a local head sees (w=1: three keys). At least 1.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`.

    Raises ValueError if there is not one kind for each head, a kind is unknown, or the window is below 1.
    """

    kind = "mma"
    undefined_at = {
        "cross": "local, forward and backward compare positions, and those of source and target are unrelated"
    }

    def __init__(
        self, embed_dim: int, num_heads: int, *, head_kinds: Sequence[str], window: int = 1, **kwargs: object
    ) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        if len(head_kinds) != num_heads:
            raise ValueError(f"{len(head_kinds)} kinds given for {num_heads} heads")
        if window < 1:
            raise ValueError(f"the window of the local heads must be 1 or more, not {window}")
        self.head_kinds, self.window = tuple(head_kinds), window
        self._windows(self.head_kinds, Frame(query_length=1, key_length=1), torch.device("cpu"))  # checks the kinds

    def hidden_keys(self, frame: Frame, device: torch.device) -> Tensor | None:
        """Return the windows of all heads, H×T×S, True = hidden; None if all heads are global."""
        return self._windows(self.head_kinds, frame, device)

    def _windows(self, kinds: tuple[str, ...], frame: Frame, device: torch.device) -> Tensor | None:
        if set(kinds) == {"global"}:
            return None
        lengths = frame.query_length, frame.key_length
        windows = head_windows if math.prod(lengths) <= CACHED_UP_TO else head_windows.in_pass
        return windows(kinds, self.window, *lengths, offset=frame.offset, device=device)

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute all heads in one masked product, or over long texts each kind by itself.

        From banded.BANDED_FROM keys on local heads are computed in their band, in T·w instead of T·S; where the kernel
        can leave keys out, forward and backward heads are computed over those that they see, without a mask of T×S.
        """
        if need_weights or call.frame.key_length < banded.BANDED_FROM:
            return super().attend(call, need_weights)
        seen = {"local": "band"}  # what heads of a kind see, where that is computed alone
        if self.skips_future(call):
            causal = call.frame.attn_mask is not None
            seen |= {"backward": "past"} | ({"global": "past"} if causal else {"forward": "future"})
        parts = []
        for sees, group in groupby(range(self.num_heads), lambda head: seen.get(self.head_kinds[head])):
            run = list(group)
            heads = call.heads(slice(run[0], run[-1] + 1))
            if sees == "band":
                part, _ = banded.banded_attention(heads, half_width=self.window, **self.computation)
            elif sees is not None:
                part = self.attend_to_one_side(heads, future=sees == "future")
            else:
                kinds = tuple(self.head_kinds[head] for head in run)
                windows = self._windows(kinds, call.frame, call.q.device)
                hidden, bias = hidden_and_bias(call.frame, windows, None, call.q.dtype)
                part = self.fused(heads.q, heads.k, heads.v, hidden=hidden, bias=bias)
            parts.append(part)
        return torch.cat(parts, dim=1), None

    def position_terms(self, call: Call) -> PositionTerms:
        """Return the windows of all heads."""
        return PositionTerms(self.windows())

    def windows(self) -> tuple[Window, ...]:
        """Return the windows of all heads, as one; nothing if all heads are global."""
        return window_by_distance(self.head_kinds, self.window) if set(self.head_kinds) != {"global"} else ()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, head_kinds={','.join(self.head_kinds)}, window={self.window}"


@lru_cache(maxsize=64)
def window_by_distance(kinds: tuple[str, ...], half_width: int) -> tuple[Window]:
    """Return the windows of heads of these kinds as spans; cached, since each step of decoding asks for them."""
    low, high = zip(*(bounds_of_kind(kind, half_width) for kind in kinds), strict=True)
    return (distance_window(low, high),)


# Windows of more entries T·S are made by each layer: the cache would hold them to the end of the process.
CACHED_UP_TO = 1 << 20


@kept(4)
def head_windows(
    kinds: tuple[str, ...],
    half_width: int,
    query_length: int,
    key_length: int,
    *,
    offset: int,
    device: torch.device,
) -> Tensor:
    """Return the windows of heads of these kinds, H×T×S, True = hidden.

    Cached, since all layers ask for the same windows in a batch. Raises ValueError for an unknown kind.
    """
    relative = relative_positions(query_length, key_length, offset, device)
    windows = {kind: window_of_kind(kind, relative, half_width) for kind in dict.fromkeys(kinds)}
    return torch.stack([windows[kind] for kind in kinds])
