"""Mask attention: weights are multiplied by a mask M in [0, 1] and normalised again (MAN, Fan et al., NAACL 2021).

``S_M(Q, K) = M·exp(QKᵀ/√d_k) / Σ_k M·exp(QKᵀ/√d_k)`` (Eq. 4), which equals ``softmax(QKᵀ/√d_k + log M)``, and
``H = F([A_M¹, …, A_Mᴵ]) W_H`` (Eq. 5). Special cases:

- self-attention (SAN): ``M = 1``, :class:`LocalAttention` with F as its ``activation``
- the feed-forward network: ``M = I``, one head, F = ReLU (Eq. 7-9)
- static mask attention (SMAN): M is a band of ones (Eq. 11)
- dynamic mask attention (DMAN): M is a sigmoid of query, distance and head (Eq. 12)
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..core.call import Call
from ..core.hooks import is_plain
from ..kernels.distances import all_distances, by_position
from ..kernels.masks import Frame, at_least_fp32, is_future
from ..kernels.once import once_differentiable
from ..kernels.passes import may_read, shared
from ..kernels.triton.dman import dynamic_mask_attention
from ..kernels.triton.operators import DTYPES
from ..kernels.triton.row_dot import row_dot
from ..kernels.windows import Score, by_distance
from ..ranges import check_number
from .banded import BandedAttention
from .relative import MAX_DISTANCES

# Dynamic masks are clamped to at least 1e-10, so that no key is hidden completely; the clamped part has no gradient.
LOWEST_MASK = 1e-10
POSITIONS_DIFFER = (
    "the mask compares the positions of query and key, and source and target positions cannot be compared"
)
_LOWEST_Z = math.log(LOWEST_MASK)  # its inverse sigmoid


class _LogMask(torch.autograd.Function):
    """``log max(σ(z), LOWEST_MASK)``, whose derivative is 1 - σ(z), and 0 where z was clamped.

    Overwrites z, which nothing else may need. ``clamp``: whether some z may be below the bound.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, clamp: bool) -> Tensor:
        mask = z.detach()
        if clamp:
            mask.clamp_(min=_LOWEST_Z)
        mask.sigmoid_()
        ctx.save_for_backward(mask)
        ctx.clamp = clamp
        return mask.log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        if ctx.clamp:  # clamped entries equal LOWEST_MASK up to rounding
            gradient = torch.ops.aten.threshold_backward(gradient, mask, LOWEST_MASK * (1 + 1e-5))
        return torch.addcmul(gradient, gradient, mask, value=-1), None


class DynamicMaskAttention(LocalAttention):
    """Dynamic mask attention (DMAN): ``M[t, s] = σ(x_t·w + P_{t-s} + U_i)`` for query t, key s and head i (Eq. 12).

    ``x`` is the module's input, not the projected query. The parameters ``query_mask`` (w), ``distance_mask`` (P) and
    ``head_mask`` (U) belong to this layer alone. They are initialised as in the authors' code, w by Xavier and P and U
    from N(0, 1), so no distance is preferred in expectation. Not as there: a distance beyond the table is no error, and
    a decoder whose target length equals the batch size does not see the future (an axis is swapped there).

    Args:
        max_distance: the greatest distance with an entry in P, 0 or more; keys further away use its entry.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`; if causal, P has no entries for the future (keys
            there use P_0).

    Raises ValueError for a ``max_distance`` that is negative or above :data:`MAX_DISTANCES`.
    """

    kind = "dman"
    undefined_at = {"cross": POSITIONS_DIFFER}

    def __init__(self, embed_dim: int, num_heads: int, *, max_distance: int = 1024, **kwargs: object) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        check_number("the greatest distance of the dynamic mask", max_distance, 0, MAX_DISTANCES)
        self.max_distance, self.ahead = max_distance, 0 if self.causal else max_distance
        self.query_mask = nn.Linear(embed_dim, 1, bias=False)
        # Entry d + ahead is P_d, from d = -ahead (the furthest future) to d = max_distance (the furthest past).
        self.distance_mask = nn.Parameter(torch.empty(self.ahead + max_distance + 1))
        self.head_mask = nn.Parameter(torch.empty(num_heads))
        nn.init.xavier_uniform_(self.query_mask.weight)
        nn.init.normal_(self.distance_mask)
        nn.init.normal_(self.head_mask)

    def score_bias(self, call: Call) -> Tensor:
        """Return ``log M``, B×H×T×S, in at least fp32; half precision would lose small differences of P."""
        by_query = self._queries(call.query)
        precision = by_query.dtype
        by_head = self.head_mask.to(precision)[:, None, None]
        # Overlapping rows of P: an index for each pair would make the backward pass a scattered sum over all of them.
        by_distance = by_position(self._entries(call.frame, precision), call.frame.key_length) + by_head
        # Clamping is rarely needed. On a CPU, bounding z by the minima of its terms is cheaper than a pass over z, but
        # not for the one query of a decoding step.
        clamp = not may_read(by_query.device) or 0 in (by_query.numel(), by_distance.numel())
        clamp = clamp or (call.frame.query_length == 1 and not torch.is_grad_enabled())
        clamp = clamp or bool(by_query.detach().amin() + by_distance.detach().amin() < _LOWEST_Z)
        return _LogMask.apply(by_query[:, None, :, None] + by_distance, clamp)

    def _queries(self, query: Tensor) -> Tensor:
        """Return x_t·w, B×T, in at least fp32."""
        precision = at_least_fp32(query.dtype)
        if not is_plain(self.query_mask):
            return self.query_mask(query).to(precision)[..., 0].T
        with torch.autocast(query.device.type, enabled=False):  # which would compute the product in half precision
            return F.linear(query.to(precision), self.query_mask.weight.to(precision))[..., 0].T

    def _entries(self, frame: Frame, dtype: torch.dtype) -> Tensor:
        """Return P of all distances, T+S-1."""
        of_pass = frame.query_length, frame.key_length, frame.offset, self.distance_mask.device
        ahead, most = self.ahead, self.max_distance

        def places() -> Tensor:
            return (-all_distances(*of_pass)).clamp(-ahead, most) + ahead

        return self.distance_mask[shared(places, "places of distances", ahead, most, *of_pass)].to(dtype)

    def attend_by_kernel(self, call: Call) -> Tensor | None:
        """Attend by kernels that compute M where they use it; with an ``attn_mask`` only if it hides the future."""
        frame, project = call.frame, self.query_mask
        if frame.attn_mask is not None and not is_future(frame.attn_mask):
            return None
        if is_plain(project) and project.weight.dtype in DTYPES and call.query.dtype in DTYPES:
            by_query = row_dot(call.query, project.weight.flatten())
        else:
            by_query = self._queries(call.query).float()
        return dynamic_mask_attention(
            call.q,
            call.k,
            call.v,
            (by_query, self.distance_mask, self.head_mask),
            padding=frame.key_padding_mask,
            scaling=self.scaling,
            lowest_z=_LOWEST_Z,
            dropout=self.dropout_rate,
            ahead=self.ahead,
            causal=frame.attn_mask is not None,
        )

    def position_scores(self, call: Call) -> tuple[Score, ...]:
        """Return ``log M`` as a function of positions."""
        by_query = self._queries(call.query).contiguous()
        entries = self._entries(call.frame, by_query.dtype) + self.head_mask.to(by_query.dtype)[:, None]
        place, lowest = by_distance(entries, call.frame.query_length), by_query.new_full((), _LOWEST_Z)

        def score(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            z = torch.maximum(by_query[b, i] + place(b, h, i, j), lowest)
            return -(-z).exp().log1p()  # log σ(z)

        return (score,)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, max_distance={self.max_distance}"


class StaticMaskAttention(BandedAttention):
    """Static mask attention (SMAN): ``M[t, s] = 1`` where ``|t - s| ≤ b``, else 0 (Eq. 11).

    Time and memory are proportional to T·b.

    Args:
        boundary: b, 0 or more; 0 is M = I. None: ``b = √L / 2``, where L is the sentence's length without padding.
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`; if causal, L counts the words up to the query, since
            a decoder does not know the length of its output.

    Raises ValueError for a negative boundary.
    """

    kind = "sman"
    undefined_at = {"cross": POSITIONS_DIFFER}

    def __init__(self, embed_dim: int, num_heads: int, *, boundary: int | None = 4, **kwargs: object) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        check_number("the boundary of a static mask", boundary or 0, 0)
        self.boundary = boundary

    def band(self, frame: Frame, device: torch.device) -> tuple[int, Tensor | None]:
        """Return the greatest boundary, and that of each query, (B or 1)×S, where they differ."""
        if self.boundary is not None:
            return self.boundary, None
        widest = int(frame.key_length**0.5 / 2)  # from the padded length, to read no tensor
        return widest, self._widths(frame, device)

    def _widths(self, frame: Frame, device: torch.device) -> Tensor:
        """Return √L / 2 for a query at each key position: B×S, or 1×S without padding."""
        key = "√L/2", frame.key_length, frame.key_padding_mask, self.causal, device
        return shared(lambda: self._half_roots(frame, device), *key)

    def _half_roots(self, frame: Frame, device: torch.device) -> Tensor:
        if frame.key_padding_mask is None:
            real = torch.ones(1, frame.key_length, dtype=torch.long, device=device)
        else:
            real = (~frame.key_padding_mask).long()
        length = real.cumsum(1) if self.causal else real.sum(1, keepdim=True).expand_as(real)
        return length.to(torch.float32).sqrt() / 2

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, boundary={'√L/2' if self.boundary is None else self.boundary}"
