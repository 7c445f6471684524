"""Multi-head attention with replaceable steps. Without fairseq it depends on torch and NumPy alone.

Shapes: T queries, S keys, B sentences, H heads, C channels, D = C / H channels per head.

A mechanism is a subclass of :class:`LocalAttention` that overrides one or more steps of its forward pass. Most get
a :class:`Call`, which holds positions, masks, the input and the projected tensors.

====================  =================================================================================================
``encode_positions``  a function of the projected queries and keys and of their positions
``attend``            the whole computation from q, k and v to the attended values; by default in the next seven steps:
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
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..kernels.dense import use_products
from ..kernels.masks import Frame
from .call import Call
from .decoding import Buffer, IncrementalState, KeyCache, beam_copies, cached, cached_length
from .flexible import chosen_way
from .paths import BeamState, Paths, attend_along, follow
from .projections import project_to_heads
from .steps import AttentionSteps


class LocalAttention(AttentionSteps):
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
        implementation: how attention is computed, one of :data:`kernels.dense.IMPLEMENTATIONS`.
        head_dim: D, where it is not C / H, as in a part with some of the heads.
        part: without the four projections, for a part of a composed attention.

    Raises ValueError if ``num_heads`` does not divide ``embed_dim``, and for an unknown activation or implementation.
    """

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
        implementation: str = "auto",
        head_dim: int | None = None,
        part: bool = False,
    ) -> None:
        super().__init__(
            embed_dim,
            num_heads,
            dropout=dropout,
            self_attention=self_attention,
            encoder_decoder_attention=encoder_decoder_attention,
            causal=causal,
            activation=activation,
            head_dim=head_dim,
            implementation=implementation,
        )
        self.kdim, self.vdim, self.with_bias, self.part = kdim or embed_dim, vdim or embed_dim, bias, part
        self.beam_size = 1
        self.cache = KeyCache(growing=self_attention)
        if not part:
            # Created and initialised in fairseq's order: the same seed gives the same weights as fairseq's Transformer.
            self.k_proj = nn.Linear(self.kdim, embed_dim, bias=bias)
            self.v_proj = nn.Linear(self.vdim, embed_dim, bias=bias)
            self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
            self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the four projections as fairseq does."""
        gain = 1 / math.sqrt(2) if self.kdim == self.vdim == self.embed_dim else 1.0
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    def project(
        self, query: Tensor, key: Tensor, value: Tensor, state: IncrementalState | None = None
    ) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Compute all projections of T×B×C and S×B×C; those of one input tensor in one product.

        Returns q B×H×T×D, k and v B×H×S×D, and the outputs of the extra projections by name.
        """
        queries, keys = ("q_proj", *self.extra_queries), ("k_proj", *self.extra_keys)
        groups: list[tuple[Tensor, tuple[str, ...]]] = [(query, queries), (key, keys), (value, ("v_proj",))]
        if query is key and key is value:
            groups = [(query, (*queries, *keys, "v_proj"))]
        elif key is value:
            groups = [(query, queries), (key, (*keys, "v_proj"))]
        # Keys of another sequence are projected once a decoding: their joined weights are not kept.
        found = [x for y, names in groups for x in self.project_heads(y, names, state if y is query else None)]
        extra = dict(zip((*queries, *keys, "v_proj"), found, strict=True))
        return extra.pop("q_proj"), extra.pop("k_proj"), extra.pop("v_proj"), extra

    def project_heads(self, x: Tensor, names: Sequence[str], state: IncrementalState | None = None) -> list[Tensor]:
        """Apply the named linear layers to x, T×B×C. Returns B×H×T×D each, views of one product where that pays."""
        projections: list[nn.Linear] = [getattr(self, name) for name in names]
        kept = None if state is None or len(names) == 1 else self.cache.projections(state)
        return project_to_heads(x, projections, self.num_heads, training=self.training, kept=kept)

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
        saved = self.cache.read(incremental_state)
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
                assert isinstance(incremental_state, BeamState)
                return self._from_heads(
                    attend_along(self, paths, call, cache=self.cache, state=incremental_state)
                ), None
            if incremental_state is not None:
                key_extra = {name: extra[name] for name in self.extra_keys}
                by_columns = use_products(k, k, dropout=self.dropout_rate, implementation=self.implementation)
                k, v, key_extra, key_padding_mask = self.cache.update(
                    incremental_state,
                    k,
                    v,
                    key_extra=key_extra,
                    padding=key_padding_mask,
                    copies=copies,
                    by_columns=by_columns,
                )
                extra |= key_extra
        offset = k.size(2) - length if self.self_attention else 0
        frame = Frame(length, k.size(2), offset, key_padding_mask=key_padding_mask, attn_mask=attn_mask)
        need = need_weights or need_head_weights
        call = Call(frame, query, q=q, k=k, v=v, extra=extra)
        attended, weights = self._attend_beams(call, need, by_hypothesis=isinstance(incremental_state, BeamState))
        output = self._from_heads(attended)
        if not need or weights is None:
            return output, None
        return output, weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)

    def _from_heads(self, attended: Tensor) -> Tensor:
        """Return the output T×B×C from the attended values B×H×T×D."""
        heads = attended.permute(2, 0, 1, 3).flatten(2)
        return self.out_proj(self.activate(heads).contiguous())  # contiguous: bias and product in one operation

    def attend_heads(self, call: Call, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Compute :meth:`attend_and_clear`, by FlexAttention or a kernel where one is chosen and possible."""
        chosen = None if need_weights else chosen_way(self, call)
        attended = None if chosen is None else chosen(call)
        if attended is not None:
            return attended, None
        return self.attend_and_clear(call, need_weights)

    def _attend_beams(self, call: Call, need_weights: bool, *, by_hypothesis: bool) -> tuple[Tensor, Tensor | None]:
        """Call ``attend``; where the hypotheses of a beam share keys, treat them as more queries of one sentence.

        Their rows stand sentence by sentence, or ``by_hypothesis``.
        """
        sentences, rows = call.k.size(0), call.q.size(0)
        if 0 in (rows, call.q.size(2), call.k.size(2)):  # no sentences, queries or keys
            return call.q * 0, call.q.new_zeros(*call.q.shape[:3], call.k.size(2)) if need_weights else None
        if sentences == rows:
            return self.attend_heads(call, need_weights)
        beam, length = rows // sentences, call.frame.query_length

        def by_beam(x: Tensor) -> Tensor:  # (B·P)×… → B×P×…
            return (
                x.unflatten(0, (beam, sentences)).transpose(0, 1)
                if by_hypothesis
                else x.unflatten(0, (sentences, beam))
            )

        def fold(x: Tensor) -> Tensor:
            return by_beam(x).transpose(1, 2).flatten(2, 3)  # B×H×(beam·T)×D

        query = by_beam(call.query.transpose(0, 1)).flatten(1, 2).transpose(0, 1)  # (beam·T)×B×C
        frame = replace(call.frame, query_length=beam * length)
        call = call.with_extra({name: fold(call.extra[name]) for name in self.extra_queries})
        call = replace(call, frame=frame, query=query, q=fold(call.q))
        attended, weights = self.attend_and_clear(call, need_weights)

        def unfold(x: Tensor) -> Tensor:
            x = x.unflatten(2, (beam, length)).transpose(1, 2)  # B×P×H×T×…
            return (x.transpose(0, 1) if by_hypothesis else x).flatten(0, 1)

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

    # ------------------------------------------------------------------ called by fairseq in decoding

    def _get_input_buffer(self, incremental_state: IncrementalState | None) -> Buffer:
        return self.cache.read(incremental_state)

    def _set_input_buffer(self, incremental_state: IncrementalState, buffer: Buffer) -> None:
        self.cache.write(incremental_state, buffer)

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> IncrementalState:
        """Reorder the cached tensors to follow a beam: row r becomes the former row ``new_order[r]``."""
        self.cache.reorder(incremental_state, new_order)
        return incremental_state

    # ------------------------------------------------------------------ decoding along paths

    def paths_of(self, state: IncrementalState | None) -> Paths | None:
        """Return the paths that this attention follows; None where it caches the keys of each row."""
        if self.self_attention and isinstance(state, BeamState) and self.said_by_steps:
            return state.paths
        return None

    def follow(self, state: IncrementalState, sentences: Tensor | None, columns: Tensor | None) -> None:
        """Keep of the cache these sentences and these columns B×M alone, in this order; all where None."""
        follow(self.cache, state, sentences, columns)

    def set_beam_size(self, beam_size: int) -> None:
        """Set how often sentences are repeated in cross-attention; called by fairseq's sequence generator."""
        self.beam_size = beam_size

    def make_generation_fast_(
        self, name: str = "", retain_dropout: bool = False, retain_dropout_modules: list[str] | None = None, **_: object
    ) -> None:
        """Apply fairseq's ``--retain-dropout``, under the name of fairseq's own attention class."""
        chosen = retain_dropout_modules is None or "MultiheadAttention" in retain_dropout_modules
        self.dropout_in_inference = retain_dropout and chosen
