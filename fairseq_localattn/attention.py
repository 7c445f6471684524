"""LocalAttention: one forward that every variant shares. Needs torch alone, so it can be used outside fairseq.

Shapes: T queries, S keys, B sentences, H heads, D = C / H channels a head.

Steps that a variant may override, in the order in which they run:

===============  ======================================================================================================
``key_side``     further projections of the keys, by name; cached in incremental decoding like keys and values
``hidden_keys``  a hard window: H×T×S or 1×T×S (B×H×T×S if it differs by sentence), True = hidden
``score_bias``   what is added to the scaled logits: log-masks, relative terms; broadcastable to B×H×T×S
``reweight``     what becomes of the normalised weights B×H×T×S
``attend``       all of it: bands, neighbouring heads, phrase memories
``activate``     what becomes of the concatenated heads before the output projection
===============  ======================================================================================================

With none overridden the module equals fairseq's ``MultiheadAttention``: same state-dict keys, same initialisation from
the same random state, same outputs and gradients.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Buffer = dict[str, Tensor | None]
IncrementalState = dict[str, Buffer]


@dataclass(frozen=True)
class Frame:
    """Where the queries and the keys of one call stand.

    ``offset`` is the position of the first query among the keys (self-attention only; 0 in the full pass).
    ``key_padding_mask``: B×S, True = padding. ``attn_mask``: T×S, boolean (True = hidden) or added to the logits.
    """

    query_length: int
    key_length: int
    offset: int = 0
    key_padding_mask: Tensor | None = None
    attn_mask: Tensor | None = None


def lowest_score(dtype: torch.dtype) -> float:
    """What a hidden key's logit is set to: far below any score, and finite.

    With -inf a row that has every key hidden (a padded query, an empty sentence) becomes NaN; with half of the lowest
    number it becomes uniform, stays finite when a score is added in fp16, and in every other row the hidden keys'
    weight underflows to an exact zero.
    """
    return torch.finfo(dtype).min / 2


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
        self.dropout_in_inference = False
        self._state_key = f"{uuid.uuid4()}.attn_state"

    def reset_parameters(self) -> None:
        gain = 1 / math.sqrt(2) if self.kdim == self.vdim == self.embed_dim else 1.0
        for projection in (self.k_proj, self.v_proj, self.q_proj):
            nn.init.xavier_uniform_(projection.weight, gain=gain)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    # ------------------------------------------------------------------ steps that a variant may override

    def key_side(self, key: Tensor) -> dict[str, Tensor]:
        """Further projections of the keys S×B×C, by name, each B×(n·H)×S×D; cached in incremental decoding."""
        return {}

    def hidden_keys(self, frame: Frame, device: torch.device) -> Tensor | None:
        """The hard window, 1×T×S or H×T×S (or with B before), True = hidden; None hides nothing."""
        return None

    def score_bias(self, frame: Frame, query: Tensor, q: Tensor, key_side: Mapping[str, Tensor]) -> Tensor | None:
        """Added to the scaled logits, broadcastable to B×H×T×S. ``query``: T×B×C, before projection; ``q``: B×H×T×D."""
        return None

    def reweight(self, weights: Tensor, frame: Frame, query: Tensor, key_side: Mapping[str, Tensor]) -> Tensor:
        """What the normalised weights B×H×T×S (fp32) become before dropout. Override to leave the fused path."""
        return weights

    def attend(
        self,
        frame: Frame,
        query: Tensor,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_side: Mapping[str, Tensor],
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """Weights and their sum of values: B×H×T×D, and the weights B×H×T×S when ``need_weights``.

        ``query``: T×B×C, the module's input; ``q``: B×H×T×D, not scaled; ``k``, ``v``: B×H×S×D.
        """
        bias = self.score_bias(frame, query, q, key_side)
        mask = combine_masks(frame, self.hidden_keys(frame, q.device), bias, q.dtype)
        if not need_weights and type(self).reweight is LocalAttention.reweight:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout_rate), None
        scores = torch.matmul(q * self.scaling, k.transpose(-1, -2))
        if mask is not None:
            scores = scores + mask
        weights = self.reweight(normalise(scores), frame, query, key_side)
        dropped = F.dropout(weights, self.dropout_rate).to(v.dtype)
        return torch.matmul(dropped, v), weights

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
            q, k, v = self._split_heads(self.q_proj(query)), cached(saved, "prev_key"), cached(saved, "prev_value")
            extra = {name[len("side_") :]: cached(saved, name) for name in saved if name.startswith("side_")}
            key_padding_mask = saved.get("prev_key_padding_mask")
        else:
            if self.self_attention:
                key = value = query
            assert key is not None and value is not None
            if static_kv and incremental_state is not None:
                key, value, key_padding_mask = self._one_copy_per_sentence(key, value, key_padding_mask, batch)
            q, k, v = self.project(query, key, value, fuse=incremental_state is None)
            extra = self.key_side(key)
            if incremental_state is not None:
                k, v, extra, key_padding_mask = self._remember(incremental_state, saved, k, v, extra, key_padding_mask)
        frame = Frame(
            query_length=length,
            key_length=k.size(2),
            offset=k.size(2) - length if self.self_attention else 0,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
        )
        need = need_weights or need_head_weights
        attended, weights = self._attend_beams(frame, query, q, k, v, extra, need)
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
        extra: Mapping[str, Tensor],
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        """``attend``, with the hypotheses of a beam as further queries of their sentence where the keys are shared."""
        sentences, rows = k.size(0), q.size(0)
        if sentences == rows:
            return self.attend(frame, query, q, k, v, extra, need_weights)
        beam, length = rows // sentences, frame.query_length
        folded = q.view(sentences, beam, *q.shape[1:]).transpose(1, 2).flatten(2, 3)  # B×H×(beam·T)×D
        queries = query.view(length, sentences, beam, -1).permute(2, 0, 1, 3).flatten(0, 1)  # (beam·T)×B×C
        frame = replace(frame, query_length=beam * length)
        attended, weights = self.attend(frame, queries, folded, k, v, extra, need_weights)

        def unfold(x: Tensor) -> Tensor:
            return x.unflatten(2, (beam, length)).transpose(1, 2).flatten(0, 1)

        return unfold(attended), None if weights is None else unfold(weights)

    # ------------------------------------------------------------------ projections

    def _split_heads(self, x: Tensor) -> Tensor:
        """T×B×(n·C) → B×(n·H)×T×D, a view."""
        return x.view(x.size(0), x.size(1), -1, self.head_dim).permute(1, 2, 0, 3)

    def project(self, query: Tensor, key: Tensor, value: Tensor, fuse: bool) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v as B×H×·×D; those with the same input in one matrix product when ``fuse``.

        The parameters stay three, so that checkpoints are fairseq's; joining them costs 3·C² copies, which pays on
        whole sentences and not in a decoding step of a few tokens.
        """
        if fuse and query is key and key is value:
            q, k, v = self._fused(query, self.q_proj, self.k_proj, self.v_proj).chunk(3, dim=-1)
        elif fuse and key is value:
            q = self.q_proj(query)
            k, v = self._fused(key, self.k_proj, self.v_proj).chunk(2, dim=-1)
        else:
            q, k, v = self.q_proj(query), self.k_proj(key), self.v_proj(value)
        return self._split_heads(q), self._split_heads(k), self._split_heads(v)

    @staticmethod
    def _fused(x: Tensor, *projections: nn.Linear) -> Tensor:
        """Several projections of one input in one matrix product, their channels side by side."""
        weight = torch.cat([p.weight for p in projections])
        bias = None if projections[0].bias is None else torch.cat([p.bias for p in projections])
        return F.linear(x, weight, bias)

    # ------------------------------------------------------------------ incremental decoding

    def _one_copy_per_sentence(
        self, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, batch: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Beam search repeats each sentence's encoder output ``beam_size`` times: keep one of each."""
        if self.beam_size > 1 and batch == key.size(1):
            key, value = key[:, :: self.beam_size], value[:, :: self.beam_size]
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask[:: self.beam_size]
        return key, value, key_padding_mask

    def _remember(
        self,
        state: IncrementalState,
        saved: Buffer,
        k: Tensor,
        v: Tensor,
        extra: dict[str, Tensor],
        padding: Tensor | None,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor], Tensor | None]:
        """Append this step's keys, values, key sides and padding to those of the steps before, and keep all."""
        before = saved.get("prev_key")
        if before is not None:
            padding = _append_padding(saved.get("prev_key_padding_mask"), padding, before, k)
            k, v = torch.cat([before, k], dim=2), torch.cat([cached(saved, "prev_value"), v], dim=2)
            extra = {name: torch.cat([cached(saved, f"side_{name}"), x], dim=2) for name, x in extra.items()}
        sides = {f"side_{name}": x for name, x in extra.items()}
        self._set_input_buffer(state, {"prev_key": k, "prev_value": v, "prev_key_padding_mask": padding, **sides})
        return k, v, extra, padding

    def _get_input_buffer(self, incremental_state: IncrementalState | None) -> Buffer:
        return (incremental_state or {}).get(self._state_key, {})

    def _set_input_buffer(self, incremental_state: IncrementalState, buffer: Buffer) -> None:
        incremental_state[self._state_key] = buffer

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor) -> IncrementalState:
        """Follow a beam: row r of every cached tensor becomes row ``new_order[r]``."""
        buffer = self._get_input_buffer(incremental_state)
        for name, tensor in buffer.items():
            if tensor is None:
                continue
            order = new_order
            if self.encoder_decoder_attention and self.beam_size > 1:
                if tensor.size(0) * self.beam_size == new_order.size(0):
                    return incremental_state  # hypotheses moved within their sentences: the encoder side stays
                order = new_order.view(-1, self.beam_size)[:, 0] // self.beam_size
            buffer[name] = tensor.index_select(0, order)
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


def combine_masks(frame: Frame, window: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Padding, window, ``attn_mask`` and bias as one term added to the logits; None when there is nothing to add.

    ``window``: True = hidden, (B×)H×T×S; ``bias``: finite, broadcastable to B×H×T×S. Hidden keys get
    :func:`lowest_score`.
    """
    lowest = lowest_score(dtype)
    hidden: Tensor | None = None
    if frame.key_padding_mask is not None:
        hidden = frame.key_padding_mask[:, None, None, :].to(torch.bool)
    if window is not None:
        window = window if window.dim() == 4 else window[None]  # the fused kernels take masks of 2 or 4 dimensions
        hidden = window if hidden is None else hidden | window
    if frame.attn_mask is not None:
        if frame.attn_mask.dtype == torch.bool:
            hidden = frame.attn_mask if hidden is None else hidden | frame.attn_mask
        else:
            added = frame.attn_mask.clamp(min=lowest)  # fairseq's causal mask has -inf
            bias = added if bias is None else bias + added
    if bias is not None:
        bias = bias if hidden is None else bias.masked_fill(hidden, lowest)
        if bias.dtype != dtype:
            # In half precision numbers far from 0 are coarse. What the visible keys of a query have in common goes: the
            # softmax does not see it.
            bias = bias - bias.detach().amax(-1, keepdim=True)
        return bias.to(dtype)
    if hidden is None:
        return None
    return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, lowest)


def normalise(scores: Tensor) -> Tensor:
    """Softmax over the keys, in fp32 or better whatever the scores are in."""
    return torch.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))


def cached(buffer: Buffer, name: str) -> Tensor:
    """An entry of the decoding state that must be there."""
    tensor = buffer[name]
    assert tensor is not None, f"{name} is missing from the decoding state"
    return tensor


def _append_padding(before: Tensor | None, now: Tensor | None, old: Tensor, new: Tensor) -> Tensor | None:
    """Padding of cached keys ``old`` and this step's ``new`` (B×H×·×D), where either may be unknown (= none)."""
    if before is None and now is None:
        return None
    if before is None:
        before = torch.zeros(old.size(0), old.size(2), dtype=torch.bool, device=old.device)
    if now is None:
        now = torch.zeros(new.size(0), new.size(2), dtype=torch.bool, device=new.device)
    return torch.cat([before.to(torch.bool), now.to(torch.bool)], dim=1)
