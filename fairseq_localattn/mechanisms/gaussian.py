"""Gaussian attention: each query prefers the keys around a centre (Yang 2018, Luong 2015, Sperber 2018 and others).

A bell of centre p and width d = 2σ is added to the scaled scores of query i and key j:

    G_ij = -(j - p_i)² / (2σ_i²) = -2 ((j - p_i) / d_i)²

The three systems differ in where p and d come from. With u_i = tanh(W [q_i¹ … q_iᴴ] + b) and n real keys, of which the
first stands at position f:

- ``transformer_localness``: p_i = f + (n - 1)·sigmoid(U_p u_i + b_p), d_i = n·sigmoid(U_d u_i + b_d) + 0.1
- ``transformer_local_hard``: the same centre, d = 10
- ``transformer_neighbor``: p_i = i, σ = w² with one trainable w a head

Where these come from:

- localness: n times a sigmoid with a shared W is in CSAN's code, and in Yang et al.'s paper as we recall it. Biases,
  the 0.1 and encoder layers 1 to 3 are of that code (an older file of it has layers 2 to 4 of both stacks).
- hard windows: the code has width 10 and no cut. CSAN's paper says only that its 11 tokens agree with Luong's 10.
- neighbours: σ = w² is of the authors' code (xnmt). Its start, 1 to 32 over the heads, is chosen for text.
- DiffWin's comparison: W and u start by Xavier, in its code from U(0, 1). Two faults of that code are not repeated:
  windows shifted by the padding, and lengths of other sentences. Its u_d, 192 parameters without gradient, is left out.
- the classifier has the Gaussian in the first of its two layers, which is our choice.

Biases start at 0, so every centre starts near the middle, with d near n/2. Depends on torch alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..core.call import Call
from ..core.hooks import is_plain
from ..core.projections import xavier_linear
from ..kernels.masks import Frame, at_least_fp32, lowest_score
from ..kernels.once import once_differentiable
from ..kernels.passes import shared
from ..kernels.windows import Score

CENTERS = ("predicted", "self")
WIDTHS = ("head", "keys", "query")  # or a number
SOURCES = ("query", "input")
HIDDEN = ("tanh", "linear")
LOWEST_WIDTH = 0.1  # added to a predicted width, which would divide by 0 otherwise
LOWEST_SIGMA = 0.1  # of a width by head; narrower bells see one key, and their gradient grows with σ^-2.5
# The score of a key that is cut off: above a hidden key's, so that a query whose visible keys are all cut off gives
# hidden keys no weight.
CUT_OFF = lowest_score(torch.float32) / 2
FIRST_SIGMA, LAST_SIGMA = 1.0, 32.0  # of the first and the last head at the start, geometric between


def parse_width(given: float | str) -> float | str:
    """Return a width from ``head``, ``keys``, ``query`` or a number of positions, at least ``2·LOWEST_SIGMA``.

    Raises ValueError for anything else.
    """
    name = given.strip().lower() if isinstance(given, str) else given
    if name in WIDTHS:
        return name
    try:
        width = float(name)
    except ValueError:
        width = 0.0
    lowest = 2 * LOWEST_SIGMA
    if not lowest <= width < float("inf"):
        raise ValueError(
            f"a window's width of {str(given)!r}: give {', '.join(WIDTHS)}, or a number of positions from {lowest}"
        )
    return width


class GaussianAttention(LocalAttention):
    """Attention with a Gaussian added to the scores of the last ``local_heads`` heads; the others are ordinary.

    Args:
        center: ``self``, the query's own position (self-attention only), or ``predicted`` from the query.
        width: d, a number of positions; ``head``, one trainable number for each head; ``keys``, predicted from the mean
            of the real keys; or ``query``, predicted from the query.
        local_heads: heads with a Gaussian; 0 = all.
        cut: hide the keys that are further than d from the centre, but never the nearest that neither padding nor
            the future hides. Where a window on the same heads or an ``attn_mask`` hides that one, the visible keys may
            all be cut off: they have equal weights.
        source: what predicts: the projected ``query`` of all heads, or the layer's ``input``.
        hidden: ``tanh``, as in the equations above; ``linear``: no tanh, no biases, one vector u of D channels for all
            heads, and p = f - 1 + n·sigmoid(u·(W x)ʰ).
        embed_dim, num_heads, kwargs: see :class:`LocalAttention`; if causal, n counts the real keys up to the query.

    Raises ValueError for an unknown name, a number of heads that there is not, and in cross-attention for ``self``.
    """

    kind = "gauss"

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        center: str = "predicted",
        width: float | str = "query",
        local_heads: int = 0,
        cut: bool = False,
        source: str = "query",
        hidden: str = "tanh",
        **kwargs: object,
    ) -> None:
        super().__init__(embed_dim, num_heads, **kwargs)  # type: ignore[arg-type]
        for what, name, known in (("centre", center, CENTERS), ("source", source, SOURCES), ("hidden", hidden, HIDDEN)):
            if name not in known:
                raise ValueError(f"unknown {what} {name!r} of a Gaussian: choose from {', '.join(known)}")
        if not 0 <= local_heads <= num_heads:
            raise ValueError(f"{local_heads} heads with a Gaussian were asked for, and there are {num_heads} heads")
        if center == "self" and self.encoder_decoder_attention:
            raise ValueError("a centre at the query's own position means nothing in the other sentence")
        self.center, self.width = center, parse_width(width)
        self.local_heads, self.cut = local_heads or num_heads, cut
        self.source, self.hidden = source, hidden
        if center == "predicted" or self.width == "query":
            channels = embed_dim if source == "input" else self.inner_dim
            self.window_hidden = xavier_linear(channels, self.local_heads * self.head_dim, bias=hidden == "tanh")
        if self.width == "keys":
            self.window_keys = xavier_linear(self.inner_dim, self.local_heads * self.head_dim, bias=hidden == "tanh")
        if center == "predicted":
            self.window_center = self._output()
        if self.width in ("keys", "query"):
            self.window_width = self._output()
        if self.width == "head":
            steps = torch.arange(self.local_heads) / max(self.local_heads - 1, 1)
            self.window_root = nn.Parameter((FIRST_SIGMA * (LAST_SIGMA / FIRST_SIGMA) ** steps).sqrt())

    @property
    def reads_projections(self) -> bool:
        """Whether centre or width is predicted from the projected queries or keys."""
        by_query = self.source == "query" and (self.center == "predicted" or self.width == "query")
        return by_query or self.width == "keys"

    @property
    def said_by_steps(self) -> bool:
        """Whether no width is predicted from the keys."""
        return self.width != "keys"

    def _output(self) -> nn.Linear:
        """Return the layer that computes one number for each local head from the hidden layer."""
        if self.hidden == "linear":
            return xavier_linear(self.head_dim, 1, bias=False)
        return xavier_linear(self.local_heads * self.head_dim, self.local_heads)

    def prepare(self, call: Call) -> Mapping[str, Tensor]:
        """Return the Gaussian G as ``bell``, and with a cut-off ``far``, True = cut off: (B or 1)×H×(T or 1)×S each."""
        center, width, reach = self._window(call)
        keys = torch.arange(call.frame.key_length, device=center.device, dtype=center.dtype)
        found = {"bell": _Bell.apply(center, width, keys, self.num_heads)}
        if reach is not None:
            far = (keys - center.detach()).abs() > reach
            found["far"] = F.pad(far, (0, 0, 0, 0, self.num_heads - self.local_heads, 0))
        return found

    def score_bias(self, call: Call) -> Tensor | None:
        """Return G, with :data:`CUT_OFF` at the keys that are cut off."""
        bell = call.extra["bell"]
        return bell.masked_fill(call.extra["far"], CUT_OFF) if self.cut else bell

    def position_scores(self, call: Call) -> tuple[Score, ...] | None:
        """Return G as a function of positions."""
        center, width, reach = self._window(call)
        shape = call.q.size(0), self.local_heads, call.frame.query_length, 1

        def of_heads(x: Tensor, other: float) -> Tensor:  # B×H×T
            others = (0, 0, 0, 0, self.num_heads - self.local_heads, 0)
            return F.pad(x.expand(shape), others, value=other)[..., 0].contiguous()

        if reach is None:
            return (_bell(of_heads(center, 0.0), of_heads(width, math.inf)),)
        widths = of_heads(width, math.inf), of_heads(reach, math.inf)
        return (_cut_bell(of_heads(center, 0.0), *widths),)

    # ------------------------------------------------------------------ centre and width

    def _window(self, call: Call) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return p, d, and the distance from p where the cut begins, each broadcastable to B×L×T×1; L local heads.

        In at least fp32. The distance is d, or if larger that of the key next to p which padding and the future show.
        It has no gradient; None without ``cut``.
        """
        first, count = self._extent(call)
        center, width = self._center_and_width(call, first, count)
        if not self.cut:
            return center, width, None
        with torch.no_grad():
            nearest = center.round().clamp(first, first + count - 1)
            return center, width, torch.maximum(width, (nearest - center).abs())

    def _extent(self, call: Call) -> tuple[Tensor, Tensor]:
        """Return f and n: the first real key, (B or 1)×1×1×1, and the number of keys, (B or 1)×1×(T or 1)×1.

        In at least fp32.
        """
        frame, dtype = call.frame, at_least_fp32(call.q.dtype)
        key = frame.key_padding_mask, frame.query_length, frame.key_length, frame.offset, self.causal, dtype
        return shared(lambda: self._counted(frame, dtype, call.q.device), "extent", call.q.device, *key)

    def _counted(self, frame: Frame, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
        padding = frame.key_padding_mask
        if padding is None:
            padding = torch.zeros(1, frame.key_length, dtype=torch.bool, device=device)
        seen = (~padding).cumsum(1)
        first = (seen == 0).sum(1)
        count = seen[:, frame.offset : frame.offset + frame.query_length] if self.causal else seen[:, -1:]
        # At least 1, so that a padded query before the first word has a window as well.
        return first.to(dtype)[:, None, None, None], count.clamp(min=1).to(dtype)[:, None, :, None]

    def _center_and_width(self, call: Call, first: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """Return p and d, given f and n."""
        frame, q, dtype = call.frame, call.q, first.dtype
        hidden: Tensor | None = None
        if self.center == "predicted" or self.width == "query":
            x = call.query if self.source == "input" else q.permute(2, 0, 1, 3).flatten(2)
            hidden = self._activate_hidden(self.window_hidden(x))
        if self.center == "self":
            end = frame.offset + frame.query_length
            center = torch.arange(frame.offset, end, device=q.device, dtype=dtype)[None, None, :, None]
        else:
            share = self._share(self.window_center, hidden, dtype)
            center = first + ((count - 1) * share if self.hidden == "tanh" else count * share - 1)
        if isinstance(self.width, float):
            return center, torch.full((1, self.local_heads, 1, 1), self.width, device=q.device, dtype=dtype)
        if self.width == "head":
            sigma = self.window_root.to(dtype).square().clamp(min=LOWEST_SIGMA)
            return center, 2 * sigma[None, :, None, None]
        if self.width == "keys":
            hidden = self._activate_hidden(self.window_keys(self._mean_key(call, count).to(call.k.dtype)))
        return center, count * self._share(self.window_width, hidden, dtype) + LOWEST_WIDTH

    def _activate_hidden(self, x: Tensor) -> Tensor:
        """Return the hidden layer from its linear part, T×B×(L·D)."""
        return x.tanh() if self.hidden == "tanh" else x

    def _share(self, output: nn.Linear, hidden: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Compute the sigmoid of an output layer, B×L×T×1, in ``dtype`` also under autocast."""
        assert hidden is not None
        with torch.autocast(hidden.device.type, enabled=False):
            if self.hidden == "linear":
                hidden = hidden.unflatten(-1, (self.local_heads, self.head_dim))
            if is_plain(output):
                bias = None if output.bias is None else output.bias.to(dtype)
                numbers = F.linear(hidden.to(dtype), output.weight.to(dtype), bias).flatten(2)
            else:
                numbers = output(hidden).to(dtype).flatten(2)
        return numbers.sigmoid().permute(1, 2, 0)[..., None]

    def _mean_key(self, call: Call, count: Tensor) -> Tensor:
        """Return the mean over the real keys, all heads joined: (T or 1)×B×C; T if each query has its own."""
        frame, keys = call.frame, call.k.permute(2, 0, 1, 3).flatten(2).to(count.dtype)
        if frame.key_padding_mask is not None:
            keys = keys.masked_fill(frame.key_padding_mask.T[..., None], 0)
        if self.causal:
            sums = keys.cumsum(0)[frame.offset : frame.offset + frame.query_length]
        else:
            sums = keys.sum(0, keepdim=True)
        return sums / count[:, 0].transpose(0, 1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, center={self.center}, width={self.width}, local_heads={self.local_heads}"


def _bell(center: Tensor, width: Tensor) -> Score:
    """Return ``-2 ((j - p) / d)²`` as a function of positions, from p and d, B×H×T."""
    return lambda b, h, i, j: -2 * ((j - center[b, h, i]) / width[b, h, i]).square()


def _cut_bell(center: Tensor, width: Tensor, reach: Tensor) -> Score:
    """Return :func:`_bell`, and :data:`CUT_OFF` further than ``reach``, B×H×T, from the centre."""
    cut_off = center.new_full((), CUT_OFF)

    def score(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        distance = j - center[b, h, i]
        return torch.where(distance.abs() > reach[b, h, i], cut_off, -2 * (distance / width[b, h, i]).square())

    return score


class GaussianProductAttention(GaussianAttention):
    """Gaussian attention whose weights are multiplied by exp(G) after the softmax and not normalised again.

    With ``cut`` and a number as width it is Luong et al.'s local attention. Arguments as in :class:`GaussianAttention`.
    """

    def score_bias(self, call: Call) -> Tensor | None:
        """Hide the keys that are cut off; the Gaussian is no part of the scores."""
        if not self.cut:
            return None
        return torch.zeros_like(call.extra["bell"]).masked_fill(call.extra["far"], CUT_OFF)

    def position_scores(self, call: Call) -> tuple[Score, ...] | None:
        """Return None: weights are no scores."""
        return None

    def reweight(self, weights: Tensor, call: Call) -> Tensor:
        """Multiply the weights B×H×T×S by exp(G)."""
        return weights * call.extra["bell"].exp()


class _Bell(torch.autograd.Function):
    """``-2 ((j - p) / d)²`` for the last L heads and 0 for the first ones.

    p and d, which broadcast to B×L×T×1, and S keys → B×H×T×S. B or T is 1 if it is 1 in both p and d.
    """

    @staticmethod
    def forward(ctx: Any, center: Tensor, width: Tensor, keys: Tensor, heads: int) -> Tensor:
        ctx.save_for_backward(center, width, keys)
        batch, local, length, _ = torch.broadcast_shapes(center.shape, width.shape)
        ctx.others = heads - local
        bell = center.new_empty(batch, heads, length, keys.size(0))
        bell[:, : ctx.others].zero_()
        part = bell[:, ctx.others :]
        torch.sub(keys, center.expand(batch, local, length, 1), out=part)
        part.square_().mul_(-2 / width.square())
        return bell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        center, width, keys = ctx.saved_tensors
        distance = keys - center
        product = gradient[:, ctx.others :] * distance
        slope = 4 / width.square()
        by_center = by_width = None
        if ctx.needs_input_grad[0]:
            by_center = (product.sum(-1, keepdim=True) * slope).sum_to_size(center.shape)
        if ctx.needs_input_grad[1]:
            by_width = (product.mul_(distance).sum(-1, keepdim=True) * (slope / width)).sum_to_size(width.shape)
        return by_center, by_width, None, None
