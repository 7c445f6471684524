"""A described attention for models of Hugging Face's transformers (4.48 and later). Depends on torch alone.

A model of transformers projects queries, keys and values itself, and calls a function that it finds by name. Only a
text that is a mask or a bias of positions fits there: the function has no parameters, and does not see the model's
input.

Shapes: B sentences, H heads of queries, T queries, S keys, D channels a head. Masks of transformers have True = seen,
or are added to the scores; ours have True = hidden.
"""

from __future__ import annotations

import sys
from functools import lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..core.call import Call
from ..errors import UsageError
from ..kernels.masks import Frame, future_mask, hides
from .build import Text, mechanisms_of
from .build import attention as build_attention
from .parse import Attention, Group, Mechanism, parse_attention
from .words import PHRASES

# Arguments of attention that some models pass and that no text computes.
UNKNOWN = ("softcap", "s_aux", "position_bias", "head_mask")


class AttentionFunction:
    """A text as an attention function of transformers.

    Args:
        text: groups of heads, such as ``2*local(window=8) + 6*global``.

    Raises UsageError, with the place in the text, for a word that has parameters or depends on the query.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        parsed, reader = parse_attention(text), Text(text)
        reader.check(parsed, "encoder")
        for mechanism in mechanisms_of(parsed):
            if reason := _reason_against(reader, mechanism):
                raise reader.error(f"transformers cannot call {mechanism.word}: it {reason}", mechanism.at)
        # Parts by heads, channels, causality and dropout; they hold no tensors.
        self._part = lru_cache(16)(partial(_part, text))

    def register(self, name: str) -> None:
        """Register function and mask in transformers, for ``attn_implementation=name``."""
        from transformers import modeling_utils

        # Since 4.50 a class holds all functions; before, a dictionary.
        functions = getattr(modeling_utils, "AttentionInterface", None)
        if functions is None:
            modeling_utils.ALL_ATTENTION_FUNCTIONS[name] = self
        else:
            functions.register(name, self)
        try:
            from transformers.masking_utils import AttentionMaskInterface
        except ImportError:  # before 4.53 models make the mask themselves
            return
        AttentionMaskInterface.register(name, self.mask)

    def mask(self, *, kv_length: int, kv_offset: int = 0, **call: Any) -> Tensor | None:
        """Return the mask of a batch, to be registered in transformers' ``AttentionMaskInterface``.

        It ends at the last query's key; a cache of fixed size has more keys. B×1×1×S for padding alone,
        B×1×T×S for a mask that is more than causal, and None where nothing is hidden; True = seen.
        """
        from transformers import masking_utils as theirs

        padding, function = call.get("attention_mask"), call["mask_function"]
        causal = function is theirs.causal_mask_function
        keys = kv_length
        if function is not getattr(theirs, "bidirectional_mask_function", None):  # 5.x alone has it
            # 4.x passes the positions of the queries, 5.x the first one and how many there are.
            positions = call.get("cache_position")
            first, last = (call["q_offset"], call["q_length"]) if positions is None else (positions[0], len(positions))
            keys = min(kv_length, int(first) + last - kv_offset)
            if not causal:
                call |= {"allow_is_causal_skip": False}
                whole = theirs.sdpa_mask(kv_length=kv_length, kv_offset=kv_offset, **call)
                return whole[..., :keys]
        if padding is None or bool(padding[:, kv_offset : kv_offset + keys].all()):
            shape = call["batch_size"], 1, 1, keys
            return None if keys == kv_length else torch.ones(shape, dtype=torch.bool, device=_device(call))
        padding = padding[:, kv_offset : kv_offset + keys].bool()
        return F.pad(padding, (0, keys - padding.size(1)))[:, None, None]

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend, with the calling convention of transformers.

        Args:
            module: the model's attention; ``is_causal`` and ``config`` are read.
            query: B×H×T×D.
            key, value: B×(H / n)×S×D, of which each serves n heads of queries in turn.
            attention_mask: B×1×(1 or T)×S, True = seen, or a float mask added to the scores; one row is padding.
            dropout: rate on the weights.
            scaling: of the scores; by default D^-0.5.
            is_causal: in the place of the module's own.

        Returns the attended values B×T×H×D, and with ``output_attentions`` the weights B×H×T×S, else None.
        Raises UsageError for attention to another sequence, and for models that add more than a mask.
        """
        causal = _is_causal(module, is_causal)
        _check(self.text, module, kwargs, queries=query.size(2), keys=key.size(2), causal=causal)
        if attention_mask is None:
            _check_mask_is_registered(self.text, module)
        elif attention_mask.dim() != 4 or attention_mask.size(1) != 1:
            shape = "×".join(map(str, attention_mask.shape))
            raise UsageError(f"{self.text!r}: the attention mask must be B×1×T×S, the same for all heads, not {shape}")
        else:
            keys = _keys_up_to_last_query(attention_mask, query.size(2), key.size(2), causal=causal)
            attention_mask, key, value = attention_mask[..., :keys], key[:, :, :keys], value[:, :, :keys]
        groups = query.size(1) // key.size(1)
        if groups > 1:
            key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
        part = self._part(query.size(1), query.size(3), causal=causal, dropout=dropout)
        if scaling is not None and scaling != part.scaling:
            query = query * (scaling / part.scaling)
        frame = _frame(attention_mask, query, keys=key.size(2), causal=causal)
        nothing = query.new_empty(query.size(2), query.size(0), 0)  # the model's input, which no such text reads
        call = Call(frame, nothing, q=query, k=key, v=value)
        attended, weights = part.attend_heads(call, bool(kwargs.get("output_attentions")))
        heads = attended.transpose(1, 2)
        return part.activate(heads.flatten(2)).unflatten(2, heads.shape[2:]).contiguous(), weights

    def __repr__(self) -> str:
        return f"attention_function({self.text!r})"


def _part(text: str, heads: int, head_dim: int, *, causal: bool, dropout: float) -> LocalAttention:
    """Return the text's mechanisms without projections."""
    site = "decoder" if causal else "encoder"
    options = {"head_dim": head_dim, "dropout": dropout, "part": True, "self_attention": True}
    return build_attention(text, heads * head_dim, heads, site=site, **options)


def _reason_against(reader: Text, mechanism: Mechanism) -> str | None:
    """Return what a mechanism needs that a function without parameters has not; None if it can be one."""
    if mechanism.word in PHRASES:
        return "needs phrases, which come with the batches of a translation model"
    alone = Attention((Group((mechanism,), at=mechanism.at),), mechanism.at)
    with torch.device("meta"):  # and so many heads that any span of neighbours is among them
        part = reader.attention(alone, 2048, 1024, head_dim=2, part=True, self_attention=True)
    if any(True for _ in part.parameters()):
        return "has parameters, as a module of fairseq_localattn.attention has"
    if part.has("encode_positions"):
        return "turns queries and keys, which is for the model to do"
    return None


def _is_causal(module: nn.Module, given: bool | None) -> bool:
    """Return whether a module hides the future."""
    found = getattr(module, "is_causal", None) if given is None else given
    if found is None:
        raise UsageError(f"{type(module).__name__} does not say by is_causal whether it hides the future")
    return bool(found)


def _check(text: str, module: nn.Module, given: dict[str, Any], *, queries: int, keys: int, causal: bool) -> None:
    """Raise UsageError for attention to another sequence, and for what a model adds to attention."""
    name, config = type(module).__name__, getattr(module, "config", None)
    other = getattr(config, "is_encoder_decoder", False) or (not causal and getattr(config, "is_decoder", False))
    if other or (not causal and queries != keys):
        raise UsageError(f"{text!r} compares positions of one sequence, and {name} attends to another as well")
    if more := [each for each in UNKNOWN if given.get(each) is not None]:
        raise UsageError(f"{text!r} is a mask or a bias of positions, and {name} asks for {', '.join(more)} as well")


def _check_mask_is_registered(text: str, module: nn.Module) -> None:
    """Raise UsageError where transformers leaves the mask out, padding and all, because it knows none by that name."""
    masks = sys.modules.get("transformers.masking_utils")
    name = getattr(getattr(module, "config", None), "_attn_implementation", None)
    if masks is not None and name is not None and name not in masks.ALL_MASK_ATTENTION_FUNCTIONS:
        raise UsageError(
            f"no mask is registered for {name!r}, so transformers passes no padding: register both by "
            f"fairseq_localattn.attention_function({text!r}).register({name!r})"
        )


def _keys_up_to_last_query(mask: Tensor, queries: int, keys: int, *, causal: bool) -> int:
    """Return how many keys there are up to the last query's own.

    A cache of fixed size has more; a mask that is not this module's own tells them by the last key that is seen.
    """
    length = min(mask.size(3), keys)
    if not causal or queries == keys or length < keys or mask.size(2) != queries:
        return length
    seen = (~hides(mask, mask.dtype) if mask.is_floating_point() else mask)[:, 0, -1, :length].any(0)
    return int(torch.where(seen, torch.arange(1, length + 1, device=mask.device), 0).amax()) or length


def _frame(mask: Tensor | None, query: Tensor, *, keys: int, causal: bool) -> Frame:
    """Return the positions and masks of a call; keys that no query sees are padding."""
    queries = query.size(2)
    offset = keys - queries if causal else 0
    own = padding = None
    if mask is not None:
        hidden = hides(mask, query.dtype) if mask.is_floating_point() else ~mask.bool()
        padding = hidden[:, 0].all(1).expand(query.size(0), -1)
        if mask.size(2) > 1:  # complete: it hides the future itself
            own = (mask if mask.is_floating_point() else hidden)[:, 0]
            own = own[0] if own.size(0) == 1 else own
            return Frame(queries, keys, offset, key_padding_mask=padding, attn_mask=own)
    if causal and queries > 1:
        if queries == keys:
            own = future_mask(queries, query.dtype, query.device)
        else:
            own = torch.ones(queries, keys, dtype=torch.bool, device=query.device).triu(offset + 1)
    return Frame(queries, keys, offset, key_padding_mask=padding, attn_mask=own)


def _device(call: dict[str, Any]) -> torch.device | None:
    positions = call.get("cache_position")
    return call.get("device") if positions is None else positions.device


def attention_function(text: str) -> AttentionFunction:
    """Return a text as an attention function of transformers; ``register`` gives it a name there.

    >>> attention_function("local(window=8)").register("local8")  # doctest: +SKIP
    >>> AutoModel.from_pretrained(name, attn_implementation="local8")  # doctest: +SKIP
    """
    return AttentionFunction(text)
