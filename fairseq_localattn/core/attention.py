"""LocalAttention: one forward that every variant shares. Without fairseq it needs torch and NumPy alone.

Shapes: T queries, S keys, B sentences, H heads, D = C / H channels a head.

Steps that a variant may override, in the order in which they run:

===============  ======================================================================================================
``hidden_keys``  a hard window: H×T×S or 1×T×S (B×H×T×S if it differs by sentence), True = hidden
``score_bias``   what is added to the scaled logits: log-masks, relative terms; broadcastable to B×H×T×S
``reweight``     what becomes of the normalised weights B×H×T×S
``attend``       all of it: bands, neighbouring heads, phrase memories
``activate``     what becomes of the concatenated heads before the output projection
===============  ======================================================================================================

Projections beside those of queries, keys and values are named in ``further_queries`` and ``further_keys``. What they
give reaches the steps as ``side``, by name; that of the keys is cached in incremental decoding like keys and values.

With none overridden the module equals fairseq's ``MultiheadAttention``: same state-dict keys, same initialisation from
the same random state, same outputs and gradients.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..kernels.dense import attention_by_products, products_suit, scaled_scores, weighted_sum
from ..kernels.dropout import dropout
from ..kernels.masks import Frame, hidden_and_bias, join_masks, normalise
from ..kernels.projections import JoinedProjections, by_column, is_by_column, project_jointly
from .decoding import Buffer, GrowableCache, append_padding, cached

IncrementalState = dict[str, Buffer]


class LocalAttention(nn.Module):
    """Multi-head attention with fairseq's ``MultiheadAttention`` interface and replaceable steps.

    Args:
        embed_dim: C, of queries and output. num_heads: H; must divide C.
        kdim, vdim: channels of keys and values where they differ (cross-attention).
        dropout: on the attention weights. bias: of the four projections.
        self_attention, encoder_decoder_attention: as in fairseq.

    Raises ValueError when the heads do not divide ``embed_dim``.
    """

    kind: ClassVar[str] = "san"  # the papers' short name of the mechanism, for tables and figures
    # The names of further linear layers of the queries and of the keys, each embed_dim wide.
    further_queries: tuple[str, ...] = ()
    further_keys: tuple[str, ...] = ()

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
    ) -> None:
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"{num_heads} attention heads do not divide an embedding of {embed_dim} channels")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self.scaling = self.head_dim**-0.5
        self.dropout = dropout
        self.self_attention = self_attention
        self.encoder_decoder_attention = encoder_decoder_attention
        # Created and initialised in fairseq's order: the same seed gives the same weights as fairseq's Transformer.
        self.k_proj = nn.Linear(self.kdim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(self.vdim, embed_dim, bias=bias)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.reset_parameters()
        self.beam_size = 1
        self.implementation = "auto"
        self.dropout_in_inference = False
        self._room, self._joined = GrowableCache(), JoinedProjections()
        self._state_key = f"{uuid.uuid4()}.attn_state"

    def reset_parameters(self) -> None:
        gain = 1 / math.sqrt(2) if self.kdim == self.vdim == self.embed_dim else 1.0
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    # ------------------------------------------------------------------ steps that a variant may override

    def hidden_keys(self, frame: Frame, device: torch.device) -> Tensor | None:
        """The hard window, 1×T×S or H×T×S (or with B before), True = hidden; None hides nothing."""
        return None

    def score_bias(self, frame: Frame, query: Tensor, q: Tensor, side: Mapping[str, Tensor]) -> Tensor | None:
        """Added to the scaled logits, broadcastable to B×H×T×S. ``query``: T×B×C, before projection; ``q``: B×H×T×D."""
        return None

    def reweight(self, weights: Tensor, frame: Frame, query: Tensor, side: Mapping[str, Tensor]) -> Tensor:
        """What the normalised weights B×H×T×S (fp32) become before dropout. Override to leave the fused path."""
        return weights

    def attend(
        self,
        frame: Frame,
        query: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        side: Mapping[str, Tensor],
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Weights and their sum of values: B×H×T×D, and the weights B×H×T×S when ``need_weights``.

        ``query``: T×B×C, the module's input; ``q``: B×H×T×D, not scaled; ``k``, ``v``: B×H×S×D; ``side``: what the
        further projections gave, by name, in the shapes of q and k.
        """
        bias = self.score_bias(frame, query, q, side)
        hidden, bias = hidden_and_bias(frame, self.hidden_keys(frame, q.device), bias, q.dtype)
        if not need_weights and type(self).reweight is LocalAttention.reweight:
            return self.fused(q, k, v, hidden, bias), None
        mask = join_masks(hidden, bias, q.dtype)
        scores = scaled_scores(q, k, self.scaling)
        if mask is not None:
            scores = scores + mask
        weights = self.reweight(normalise(scores), frame, query, side)
        return weighted_sum(dropout(weights, self.dropout_rate).to(v.dtype), v), weights

    def fused(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None, bias: Tensor | None) -> Tensor:
        """:func:`fused_attention` with this module's scaling, dropout and implementation."""
        return fused_attention(q, k, v, hidden, bias, self.scaling, self.dropout_rate, self.implementation)

    def activate(self, heads: Tensor) -> Tensor:
        """What the concatenated heads, T×B×C, become before the output projection."""
        return heads

    # ------------------------------------------------------------------ the shared forward

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
            query: T×B×C. key, value: S×B×C (ignored when ``static_kv`` finds them cached).
            key_padding_mask: B×S, True = padding.
            incremental_state: fairseq's decoding state; keys and values of earlier steps are kept there.
            static_kv: the keys are the encoder's: project them once, then take them from the state.
            attn_mask: T×S, boolean (True = hidden) or added to the logits.
            need_weights: also return the weights averaged over heads, B×T×S.
            need_head_weights: return them by head instead, H×B×T×S.

        Returns output T×B×C, and the weights or None.
        """
        length, batch, _ = query.shape
        saved = self._get_input_buffer(incremental_state)
        if static_kv and "prev_key" in saved:
            q, *rest = self.project_heads(query, ("q_proj", *self.further_queries))
            k, v = cached(saved, "prev_key"), cached(saved, "prev_value")
            query_side = dict(zip(self.further_queries, rest, strict=True))
            key_side = {name[len("side_") :]: cached(saved, name) for name in saved if name.startswith("side_")}
            key_padding_mask = saved.get("prev_key_padding_mask")
        else:
            if self.self_attention:
                key = value = query
            assert key is not None and value is not None
            copies = 1
            if static_kv and incremental_state is not None:
                copies = self._copies_of_sentences(key, batch)
            if copies > 1:  # one of each is kept
                key, value = key[:, ::copies], value[:, ::copies]
                key_padding_mask = None if key_padding_mask is None else key_padding_mask[::copies]
            q, k, v, side = self.project(query, key, value)
            query_side = {name: side[name] for name in self.further_queries}
            key_side = {name: side[name] for name in self.further_keys}
            if incremental_state is not None:
                k, v, key_side, key_padding_mask = self._remember(
                    incremental_state, saved, k, v, key_side, key_padding_mask, copies
                )
        frame = Frame(
            query_length=length,
            key_length=k.size(2),
            offset=k.size(2) - length if self.self_attention else 0,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
        )
        need = need_weights or need_head_weights
        attended, weights = self._attend_beams(frame, query, q, k, v, query_side, key_side, need)
        output = self.out_proj(self.activate(attended.permute(2, 0, 1, 3).reshape(length, batch, self.embed_dim)))
        if not need or weights is None:
            return output, None
        return output, weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)

    @property
    def dropout_rate(self) -> float:
        """The rate in force: 0 in evaluation unless ``--retain-dropout`` asked for it."""
        return self.dropout if self.training or self.dropout_in_inference else 0.0

    def _attend_beams(
        self,
        frame: Frame,
        query: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        query_side: Mapping[str, Tensor],
        key_side: Mapping[str, Tensor],
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """``attend``, with the hypotheses of a beam as further queries of their sentence where the keys are shared."""
        sentences, rows = k.size(0), q.size(0)
        if sentences == rows:
            return self.attend(frame, query, q, k, v, {**query_side, **key_side}, need_weights)
        beam, length = rows // sentences, frame.query_length

        def fold(x: Tensor) -> Tensor:
            return x.unflatten(0, (sentences, beam)).transpose(1, 2).flatten(2, 3)  # B×H×(beam·T)×D

        queries = query.view(length, sentences, beam, -1).permute(2, 0, 1, 3).flatten(0, 1)  # (beam·T)×B×C
        frame = replace(frame, query_length=beam * length)
        side = {name: fold(x) for name, x in query_side.items()} | dict(key_side)
        attended, weights = self.attend(frame, queries, fold(q), k, v, side, need_weights)

        def unfold(x: Tensor) -> Tensor:
            return x.unflatten(2, (beam, length)).transpose(1, 2).flatten(0, 1)

        return unfold(attended), None if weights is None else unfold(weights)

    # ------------------------------------------------------------------ projections

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """q, k and v as B×H×·×D, and the further projections by name; those of the same input in one product."""
        queries, keys = ("q_proj", *self.further_queries), ("k_proj", *self.further_keys)
        if query is key and key is value:
            found = self.project_heads(query, (*queries, *keys, "v_proj"))
        elif key is value:
            found = self.project_heads(query, queries) + self.project_heads(key, (*keys, "v_proj"))
        else:
            found = [
                x
                for y, names in ((query, queries), (key, keys), (value, ("v_proj",)))
                for x in self.project_heads(y, names)
            ]
        side = dict(zip((*queries, *keys, "v_proj"), found, strict=True))
        return side.pop("q_proj"), side.pop("k_proj"), side.pop("v_proj"), side

    def project_heads(self, x: Tensor, names: Sequence[str]) -> list[Tensor]:
        """Projections of x, ·×B×C, each as B×H×·×D, views of one matrix product."""
        projections: list[nn.Linear] = [getattr(self, name) for name in names]
        x = x.contiguous()  # the embedding of a first layer is not, and would be multiplied sentence by sentence
        if len(names) == 1 or (x.size(0) == 1 and torch.is_grad_enabled()):  # joining costs more than it saves
            return [p(x).unflatten(-1, (-1, self.head_dim)).permute(1, 2, 0, 3) for p in projections]
        if self.training:  # with activation checkpointing without gradients too: parameters are about to change
            parts = project_jointly(x, projections, self.num_heads)
        else:
            weight, bias = self._joined.of(tuple(names), projections, self.num_heads)
            parts = F.linear(x, weight, bias).unflatten(-1, (self.num_heads, len(names), self.head_dim)).unbind(3)
        return [part.permute(1, 2, 0, 3) for part in parts]

    def train(self, mode: bool = True) -> LocalAttention:
        self._joined.forget()
        return super().train(mode)

    # ------------------------------------------------------------------ incremental decoding

    def _copies_of_sentences(self, key: Tensor, batch: int) -> int:
        """How often beam search has repeated each sentence's encoder output, S×B×C: ``beam_size`` times, or once.

        fairseq's generator says its beam when it is made, and says nothing if that is 1; so a look at the copies.
        """
        if self.beam_size == 1 or batch != key.size(1) or batch % self.beam_size:
            return 1
        sentences = key.unflatten(1, (-1, self.beam_size))
        return self.beam_size if torch.equal(sentences[:, :, 1:], sentences[:, :, :-1]) else 1

    def _remember(
        self,
        state: IncrementalState,
        saved: Buffer,
        k: Tensor,
        v: Tensor,
        key_side: dict[str, Tensor],
        padding: Tensor | None,
        copies: int,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor], Tensor | None]:
        """Append this step's keys, values, key sides and padding to those of the steps before, and keep all."""
        before = saved.get("prev_key")
        if before is not None:
            padding = append_padding(saved.get("prev_key_padding_mask"), padding, before, k)
            k, v, *sides = (
                self._room.append(name, cached(saved, name), x)
                for name, x in (("prev_key", k), ("prev_value", v), *((f"side_{n}", x) for n, x in key_side.items()))
            )
            key_side = dict(zip(key_side, sides, strict=True))
        elif not self.self_attention:  # every word reads them, as they lie
            v, fast = v.contiguous(), products_suit(k, k, None, self.dropout_rate, self.implementation)
            k, *sides = (by_column(x) if fast else x.contiguous() for x in (k, *key_side.values()))
            key_side = dict(zip(key_side, sides, strict=True))
        further = {f"side_{name}": x for name, x in key_side.items()}
        if copies > 1:
            further["copies"] = torch.tensor(copies)  # of each sentence, made one
        self._set_input_buffer(state, {"prev_key": k, "prev_value": v, "prev_key_padding_mask": padding, **further})
        return k, v, key_side, padding

    def _get_input_buffer(self, incremental_state: IncrementalState | None) -> Buffer:
        return (incremental_state or {}).get(self._state_key, {})

    def _set_input_buffer(self, incremental_state: IncrementalState, buffer: Buffer) -> None:
        incremental_state[self._state_key] = buffer

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> IncrementalState:
        """Follow a beam: row r of every cached tensor becomes row ``new_order[r]``."""
        buffer = self._get_input_buffer(incremental_state)
        copies = buffer.pop("copies", None)
        if copies is not None:
            count = int(copies)
            sentences = new_order // count
            if new_order.numel() == cached(buffer, "prev_key").size(0) * count:
                buffer["copies"] = copies
                return incremental_state  # hypotheses moved within their sentences: the encoder side stays
            whole = sentences.numel() % count == 0 and sentences.view(-1, count)
            if whole is not False and torch.equal(whole, whole[:, :1].expand_as(whole)):
                buffer["copies"], new_order = copies, whole[:, 0]
            else:  # equal sentences, and no beam: from now on a row of keys for each query's
                new_order = sentences
        for name, tensor in buffer.items():
            if tensor is None or name == "copies":
                continue
            if self.self_attention and tensor.dim() == 4 and not tensor.requires_grad:
                buffer[name] = self._room.reorder(name, tensor, new_order)
            else:
                moved = tensor.index_select(0, new_order)
                buffer[name] = by_column(moved) if is_by_column(tensor) else moved
        return incremental_state

    def set_beam_size(self, beam_size: int) -> None:
        """Called by fairseq's sequence generator: sentences are repeated this often in cross-attention."""
        self.beam_size = beam_size

    def make_generation_fast_(
        self, name: str = "", retain_dropout: bool = False, retain_dropout_modules: list[str] | None = None, **_: object
    ) -> None:
        """fairseq's ``--retain-dropout``, by the name that its own attention has there."""
        chosen = retain_dropout_modules is None or "MultiheadAttention" in retain_dropout_modules
        self.dropout_in_inference = retain_dropout and chosen

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, dropout={self.dropout}"


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    hidden: Tensor | None,
    bias: Tensor | None,
    scaling: float,
    dropout_rate: float,
    implementation: str = "auto",
) -> Tensor:
    """Attention of which nobody asks the weights: B×H×T×D; arguments as :func:`products.attention_by_products`.

    ``implementation``: one of products.IMPLEMENTATIONS.
    """
    if products_suit(q, k, bias, dropout_rate, implementation):
        return attention_by_products(q, k, v, hidden, bias, scaling, dropout_rate)
    mask = join_masks(hidden, bias, q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout_rate, scale=scaling)
