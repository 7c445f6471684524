"""Mixed multi-head self-attention: global, local, forward and backward heads (MMA, Cui et al., WNGT 2019).

``ATT(Q, K, V) = softmax(e_i + M_i) V`` (Eq. 7), where the mask M of a head is 0 for the keys that its kind sees and -∞
for all others (Eq. 8-11), and ``MA = Concat(head_G, head_L, head_F, head_B) W^O``. No parameters are added.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.attention import LocalAttention
from ..kernels.windows import Bounds, Window, distance_windows
from ..ranges import check_number

HEAD_KINDS = ("global", "local", "forward", "backward")


def bounds_of_kind(kind: str, half_width: int) -> Bounds:
    """Return the lowest and the highest ``j - i`` that a kind of head sees (Eq. 8-11); None = any.

    Raises ValueError for a kind that is not among :data:`HEAD_KINDS`.
    """
    known = {"global": (None, None), "local": (-half_width, half_width), "forward": (0, None), "backward": (None, 0)}
    if kind not in known:
        raise ValueError(f"unknown kind of head {kind!r}: choose from {', '.join(HEAD_KINDS)}")
    return known[kind]


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
        check_number("the window of the local heads", window, 1)
        self.head_kinds, self.window = tuple(head_kinds), window
        self._bounds = tuple(bounds_of_kind(kind, window) for kind in head_kinds)

    def windows(self) -> tuple[Window, ...]:
        """Return the windows of all heads, as one; nothing if all heads are global."""
        return distance_windows(self._bounds)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, head_kinds={','.join(self.head_kinds)}, window={self.window}"
