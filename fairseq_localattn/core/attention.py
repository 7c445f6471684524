"""Multi-head attention with replaceable steps. Without fairseq it depends on torch and NumPy alone.

Shapes: T queries, S keys, B sentences, H heads, C channels, D = C / H channels per head.

A mechanism is a subclass of :class:`LocalAttention` that overrides one or more steps of its forward pass, listed in the
order in which they run. Most get a :class:`Call`, which holds positions, masks, the input and the projected tensors.

====================  =================================================================================================
``encode_positions``  a function of the projected queries and keys and of their positions
``attend``            the whole computation from q, k and v to the attended values; by default in five steps:
``prepare``           tensors that several of the next steps need
``windows``           hard windows, as spans of keys or predicates of positions (:mod:`kernels.windows`)
``position_scores``   terms added to the scaled scores, as functions of positions
``hidden_keys``       the windows as a mask broadcastable to B×H×T×S, True = hidden
``score_bias``        the terms as a tensor broadcastable to B×H×T×S; overridden where it is not of positions, or faster
``reweight``          a function of the weights B×H×T×S after the softmax
``add_values``        a term added to the attended values, computed from the weights
``attend_by_kernel``  what ``attend`` returns without weights, by a kernel for GPUs, where that is chosen
``activate``          a function of the concatenated heads before the output projection
====================  =================================================================================================

Several mechanisms can act on the same heads, or each on heads of its own (:mod:`core.composed`). Such a part of an
attention is built with ``part=True``: it has the parameters of its mechanism alone, and no projections q, k, v and out.

A mechanism that needs more projections of the queries or keys lists the names of its linear layers in ``extra_queries``
and ``extra_keys``. The steps find their outputs by these names in the call's ``extra``; in incremental decoding those
of the keys are cached together with keys and values.

Without overridden steps the module equals fairseq's ``MultiheadAttention``: same state-dict keys, same initial values
from the same random state, same outputs and gradients.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UsageError
from ..kernels.dense import (
    IMPLEMENTATIONS,
    attention_and_weights,
    can_skip_future,
    causal_attention,
    fused_attention,
    use_products,
    weighted_sum,
    weights_of,
)
from ..kernels.dropout import dropout
from ..kernels.masks import Frame, hidden_and_bias, is_future
from . import banded
from .call import Call
from .decoding import GrowableCache, IncrementalState, beam_copies, cached, cached_length
from .flexible import SCORING
from .paths import FollowsPaths
from .projections import ProjectedHeads
from .query_blocks import attend_in_blocks, queries_at_once

# What may be applied to the concatenated heads before the output projection.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor] | None] = {"none": None, "relu": F.relu, "gelu": F.gelu}


class LocalAttention(ProjectedHeads, FollowsPaths):
    """Multi-head attention with fairseq's ``MultiheadAttention`` interface and replaceable steps.

    Args:
        embed_dim: C, channels of queries and output.
        num_heads: H; must divide C.
        kdim, vdim: channels of keys and values if they differ from C (cross-attention).
        dropout: rate on the attention weights.
        bias: whether the four projections have biases.
        self_attention, encoder_decoder_attention: as in fairseq.
        causal: the calls hide the future by ``attn_mask``, as in a decoder's self-attention.
        activation: applied to the concatenated heads before the output projection: ``none``, ``relu`` or ``gelu``.
        head_dim: D, if it is not C / H: of a part that has some of the heads.
        part: without the four projections, for a part of a composed attention.

    Raises ValueError if ``num_heads`` does not divide ``embed_dim``, and for an unknown activation.
    """

    kind: ClassVar[str] = "san"  # the papers' short name of the mechanism, for tables and figures
    #: Whether ``attend`` ignores ``score_bias``, ``hidden_keys``, ``reweight`` and ``add_values``, so that no other
    #: mechanism can act on the same heads by them.
    whole: ClassVar[bool] = False
    #: The sites (encoder, decoder, cross) where the mechanism is not defined, each with the reason.
    undefined_at: ClassVar[Mapping[str, str]] = {}
    # Names of additional linear layers of the queries and of the keys, each with embed_dim outputs.
    extra_queries: tuple[str, ...] = ()
    extra_keys: tuple[str, ...] = ()

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        kdim: int | None = None,
        vdim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        self_attention: bool = False,
        encoder_decoder_attention: bool = False,
        *,
        causal: bool = False,
        activation: str = "none",
        head_dim: int | None = None,
        part: bool = False,
    ) -> None:
        super().__init__()
        if head_dim is None and embed_dim % num_heads:
            raise ValueError(f"{num_heads} attention heads do not divide an embedding of {embed_dim} channels")
        if activation not in ACTIVATIONS:
            raise ValueError(f"unknown head activation {activation!r}: choose from {', '.join(ACTIVATIONS)}")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, head_dim or embed_dim // num_heads
        self.inner_dim = self.num_heads * self.head_dim  # channels of all heads; equals C except in a part
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.scaling = self.head_dim**-0.5
        self.dropout = dropout
        self.self_attention = self_attention
        self.encoder_decoder_attention = encoder_decoder_attention
        self.causal, self.activation, self.with_bias, self.part = causal, activation, bias, part
        if not part:
            # Created and initialised in fairseq's order: the same seed gives the same weights as fairseq's Transformer.
            self.k_proj = nn.Linear(self.kdim, embed_dim, bias=bias)
            self.v_proj = nn.Linear(self.vdim, embed_dim, bias=bias)
            self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
            self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
            self.reset_parameters()
        self.beam_size = 1
        self.implementation = "auto"
        self.dropout_in_inference = False
        self._cache = GrowableCache()
        self._state_key = f"{uuid.uuid4()}.attn_state"

    def reset_parameters(self) -> None:
        """Initialise the four projections as fairseq does."""
        gain = 1 / math.sqrt(2) if self.kdim == self.vdim == self.embed_dim else 1.0
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    def set_implementation(self, implementation: str) -> None:
        """Choose how attention is computed: ``auto``, ``products``, ``sdpa``, ``flex`` or ``triton``.

        Raises ValueError for another name.
        """
        if implementation not in IMPLEMENTATIONS:
            raise ValueError(f"unknown implementation {implementation!r}: choose from {', '.join(IMPLEMENTATIONS)}")
        self.implementation = implementation

    # ------------------------------------------------------------------ steps that a mechanism may override

    def has(self, step: str) -> bool:
        """Return whether this attention overrides a step, given by its name."""
        return getattr(type(self), step) is not getattr(LocalAttention, step)

    @property
    def reads_projections(self) -> bool:
        """Whether a term beside the scores depends on q or k, so that ``encode_positions`` would change it."""
        return False

    def prepare(self, call: Call) -> Mapping[str, Tensor]:
        """Return further tensors by name, which the steps below find in ``call.extra``."""
        return {}

    def encode_positions(self, q: Tensor, k: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Return q, B×H×T×D, and k, B×H×S×D, changed by their positions; the first query and key stand at ``first``."""
        return q, k

    def reweight(self, weights: Tensor, call: Call) -> Tensor:
        """Return new weights B×H×T×S from those after the softmax, before dropout; both at least in fp32.

        A subclass that overrides this step gives up the fused computation, which does not expose the weights.
        """
        return weights

    def add_values(self, attended: Tensor, weights: Tensor, call: Call) -> Tensor:
        """Return new attended values B×H×T×D from them and from the weights B×H×T×S after dropout."""
        return attended

    def attend(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Return the attended values B×H×T×D of all heads, and the weights B×H×T×S or None if they are not needed."""
        only_masked = not need_weights and call.frame.attn_mask is not None and not any(map(self.has, SCORING))
        if only_masked and self.skips_future(call):
            return self.attend_to_one_side(call), None
        if not need_weights and (attended := self._attend_in_bands(call)) is not None:
            return attended, None
        own, dropped, chosen = self.own_scores, self.dropout_rate, self.implementation
        if not need_weights and (own or use_products(call.q, call.k, dropout=dropped, implementation=chosen)):
            size = queries_at_once(call, own + 2)
            if size < call.frame.query_length:
                names, moving = self.extra_queries, self.self_attention
                attended = attend_in_blocks(self._attended_at_once, call, size, names=names, moving=moving)
                return attended, None
        return self._attend_at_once(call, need_weights)

    @property
    def own_scores(self) -> int:
        """About how many tensors B×H×T×S the steps make in training, beside the scores and the weights."""
        biased = self.has("score_bias") or self.has("position_scores")
        return biased + sum(map(self.has, ("reweight", "add_values")))

    def _attend_in_bands(self, call: Call) -> Tensor | None:
        """Attend over a long text inside of the windows; None where that is not possible, or not faster."""
        frame, windows = call.frame, self.windows()
        if frame.key_length < banded.BANDED_FROM or not windows or not all(window.bounds for window in windows):
            return None
        if len(windows) == 1 and not self.has("position_scores"):
            if self.position_scores(call) is None:
                return None
            return banded.by_bounds(call, windows[0], one_side=self.skips_future(call), **self.computation)
        full = self.self_attention and frame.query_length == frame.key_length
        half_width = banded.half_width_of_all(windows) if full else None
        if half_width is None or banded.too_wide(half_width, frame.key_length):
            return None
        scores = self.position_scores(call)
        if scores is None:
            return None
        return banded.banded_attention(call, half_width=half_width, scores=scores, **self.computation)[0]

    def _attended_at_once(self, call: Call) -> Tensor:
        return self._attend_at_once(call, need_weights=False)[0]

    def _attend_at_once(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute what :meth:`attend` returns by its five steps, for all queries at once."""
        call = call.with_extra(self.prepare(call))
        frame, q, k, v = call.frame, call.q, call.k, call.v
        bias = self.score_bias(call)
        hidden, bias = hidden_and_bias(frame, self.hidden_keys(frame, q.device), bias, q.dtype)
        if need_weights or self.has("reweight"):
            weights = self.reweight(weights_of(q, k, hidden, bias, scaling=self.scaling), call)
            kept = dropout(weights, self.dropout_rate)
            attended = weighted_sum(kept.to(v.dtype), v)
            return self.add_values(attended, kept, call), weights if need_weights else None
        if self.has("add_values"):
            found = attention_and_weights(q, k, v, hidden=hidden, bias=bias, **self.computation)
            return self.add_values(*found, call), None
        return self.fused(q, k, v, hidden=hidden, bias=bias), None

    def skips_future(self, call: Call) -> bool:
        """Return whether :meth:`attend_to_one_side` computes heads that see only the past or only the future."""
        mask = call.frame.attn_mask
        can = can_skip_future(call.q, call.k, dropout=self.dropout_rate, implementation=self.implementation)
        return can and self.self_attention and (mask is None or is_future(mask))

    def attend_to_one_side(self, call: Call, future: bool = False) -> Tensor:
        """Attend to the own key and those before it, or those after it, by :func:`causal_attention`."""
        padding = call.frame.key_padding_mask
        return causal_attention(call.q, call.k, call.v, padding, scaling=self.scaling, future=future)

    def fused(
        self, q: Tensor, k: Tensor, v: Tensor, *, hidden: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        """Call :func:`fused_attention` with this module's scaling, dropout and implementation."""
        return fused_attention(q, k, v, hidden=hidden, bias=bias, **self.computation)

    @property
    def computation(self) -> dict[str, Any]:
        """The arguments scaling, dropout and implementation of the functions of :mod:`kernels.dense`."""
        return {"scaling": self.scaling, "dropout": self.dropout_rate, "implementation": self.implementation}

    def activate(self, heads: Tensor) -> Tensor:
        """Return the input T×B×C of the output projection from the concatenated heads T×B×C."""
        activation = ACTIVATIONS[self.activation]
        return heads if activation is None else activation(heads)

    # ------------------------------------------------------------------ the shared forward pass

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        key_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend, with fairseq's calling convention.

        Args:
            query: T×B×C.
            key, value: S×B×kdim and S×B×vdim (by default C); ignored if ``static_kv`` finds them cached, and in
                self-attention.
            key_padding_mask: B×S, True = padding.
            incremental_state: fairseq's decoding state, which holds keys and values of earlier steps.
            static_kv: the keys are the encoder's: project them once, then take them from the state.
            attn_mask: T×S, boolean (True = hidden) or added to the scores.
            need_weights: also return the weights averaged over heads, B×T×S.
            need_head_weights: also return the weights of each head, H×B×T×S, instead.

        Returns the output T×B×C, and the weights or None. A query that sees no key, as in a sentence that is all
        padding, has attended values and weights of 0 and no gradient: its output is the bias of ``out_proj``.
        """
        length, batch, _ = query.shape
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.to(torch.bool)
        saved = self._get_input_buffer(incremental_state)
        if static_kv and "prev_key" in saved:
            q, *rest = self.project_heads(query, ("q_proj", *self.extra_queries), incremental_state)
            k, v = cached(saved, "prev_key"), cached(saved, "prev_value")
            extra = dict(zip(self.extra_queries, rest, strict=True))
            extra |= {name: cached(saved, f"extra_{name}") for name in self.extra_keys}
            key_padding_mask = saved.get("prev_key_padding_mask")
        else:
            if self.self_attention:
                key = value = query
            assert key is not None and value is not None
            copies = 1
            if static_kv and incremental_state is not None:
                copies = beam_copies(key, batch, self.beam_size)
            if copies > 1:  # one row per sentence is enough
                same, key = key is value, key[:, ::copies]
                value = key if same else value[:, ::copies]  # one tensor is projected in one product
                key_padding_mask = None if key_padding_mask is None else key_padding_mask[::copies]
            q, k, v, extra = self.project(query, key, value, incremental_state)
            paths = self.paths_of(incremental_state)
            q, k = self.encode_positions(q, k, cached_length(saved) if paths is None else paths.length - 1)
            if paths is not None:
                frame = Frame(1, paths.length, paths.length - 1)
                call = Call(frame, query, q=q, k=k, v=v, extra=extra)
                return self._from_heads(self.attend_along(paths, call, incremental_state)), None
            if incremental_state is not None:
                key_extra = {name: extra[name] for name in self.extra_keys}
                k, v, key_extra, key_padding_mask = self._update_state(
                    incremental_state, k, v, key_extra=key_extra, padding=key_padding_mask, copies=copies
                )
                extra |= key_extra
        offset = k.size(2) - length if self.self_attention else 0
        frame = Frame(length, k.size(2), offset, key_padding_mask=key_padding_mask, attn_mask=attn_mask)
        need = need_weights or need_head_weights
        attended, weights = self._attend_beams(Call(frame, query, q=q, k=k, v=v, extra=extra), need)
        output = self._from_heads(attended)
        if not need or weights is None:
            return output, None
        return output, weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)

    def _from_heads(self, attended: Tensor) -> Tensor:
        """Return the output T×B×C from the attended values B×H×T×D."""
        heads = attended.permute(2, 0, 1, 3).flatten(2)
        return self.out_proj(self.activate(heads).contiguous())  # else bias and product were two operations

    @property
    def dropout_rate(self) -> float:
        """The dropout rate in force: 0 in evaluation, unless fairseq's ``--retain-dropout`` keeps it."""
        return self.dropout if self.training or self.dropout_in_inference else 0.0

    def _attend_beams(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Call ``attend``; where the hypotheses of a beam share keys, treat them as more queries of one sentence."""
        sentences, rows = call.k.size(0), call.q.size(0)
        if 0 in (rows, call.q.size(2), call.k.size(2)):  # no sentences, queries or keys
            return call.q * 0, call.q.new_zeros(*call.q.shape[:3], call.k.size(2)) if need_weights else None
        if sentences == rows:
            return self.attend_heads(call, need_weights)
        beam, length = rows // sentences, call.frame.query_length

        def fold(x: Tensor) -> Tensor:
            return x.unflatten(0, (sentences, beam)).transpose(1, 2).flatten(2, 3)  # B×H×(beam·T)×D

        query = call.query.view(length, sentences, beam, -1).permute(2, 0, 1, 3).flatten(0, 1)  # (beam·T)×B×C
        frame = replace(call.frame, query_length=beam * length)
        call = call.with_extra({name: fold(call.extra[name]) for name in self.extra_queries})
        call = replace(call, frame=frame, query=query, q=fold(call.q))
        attended, weights = self.attend_and_clear(call, need_weights)

        def unfold(x: Tensor) -> Tensor:
            return x.unflatten(2, (beam, length)).transpose(1, 2).flatten(0, 1)

        return unfold(attended), None if weights is None else unfold(weights)

    def upgrade_state_dict_named(self, state: dict[str, Tensor], name: str) -> None:
        """Split the joint projection of fairseq's older checkpoints, ``in_proj_weight`` and ``in_proj_bias``."""
        prefix = f"{name}." if name else ""
        for kind in ("weight", "bias"):
            joint = state.pop(f"{prefix}in_proj_{kind}", None)
            if joint is not None:
                names = (f"{prefix}{projection}_proj.{kind}" for projection in "qkv")
                state.update(zip(names, joint.chunk(3), strict=True))

    def __prepare_scriptable__(self) -> NoReturn:
        """Refuse TorchScript; called by torch.jit.script for every module of a model."""
        raise UsageError(
            "TorchScript, which torch has deprecated, cannot compile this attention: call the model as it is; "
            "torch.export.export takes a single attention with lengths that stay the same"
        )

    def extra_repr(self) -> str:
        activation = "" if self.activation == "none" else f", activation={self.activation}"
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, dropout={self.dropout}{activation}"
