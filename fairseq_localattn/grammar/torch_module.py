"""A described attention in the place of :class:`torch.nn.MultiheadAttention`. Depends on torch alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from .build import attention as build_attention
from .build import mechanisms_of
from .parse import TextError, parse_attention
from .words import PHRASES


class DescribedAttention(nn.Module):
    """Attention described by an attention text, called as :class:`torch.nn.MultiheadAttention`.

    It also takes the place of ``self_attn`` and ``multihead_attn`` in torch's ``TransformerEncoderLayer`` and
    ``TransformerDecoderLayer``. Boolean masks are torch's: True = hidden.

    Args:
        text: groups of heads, such as ``2*local(window=8) + 6*global`` (:mod:`fairseq_localattn.grammar.parse`).
        embed_dim: C.
        num_heads: H; must divide C.
        dropout: rate on the weights.
        bias: whether the projections have biases.
        kdim, vdim: channels of keys and values, if not C; with ``site="cross"``.
        batch_first: B×T×C in the place of T×B×C.
        site: ``encoder`` or ``decoder`` for self-attention, where query, key and value are one tensor; ``cross`` for
            attention to another sequence. A decoder hides the future where a call gives no ``attn_mask``.
        implementation: how it is computed, as by ``--localattn-attention``: auto, products, sdpa, flex or triton.
        device, dtype: of the parameters.

    A state dict of torch's own attention loads; :meth:`torch_state_dict` returns one.

    ``torch.jit.trace`` takes all words but ``csan`` and ``shaw``. Call the module in ``eval()`` once before, under
    ``torch.no_grad()``. A traced ``block`` keeps its lengths.

    Raises UsageError, with the place in the text, for a text that describes no attention, and ValueError for an
    unknown ``site``.
    """

    # What torch's encoder and layers look at before they take a fused path, which knows ordinary attention alone.
    in_proj_bias = None
    in_proj_weight = SimpleNamespace(__torch_function__=None)  # an attribute that keeps torch off its fused path
    _qkv_same_embed_dim = False

    def __init__(
        self,
        text: str,
        embed_dim: int,
        num_heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        site: str = "encoder",
        implementation: str = "auto",
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if site not in ("encoder", "decoder", "cross"):
            raise ValueError(f"unknown site {site!r}: choose from encoder, decoder, cross")
        for mechanism in mechanisms_of(parse_attention(text)):
            if mechanism.word in PHRASES:
                raise TextError(text, mechanism.at, "phrases come with the batches of a translation model")
        cross = site == "cross"
        options: dict[str, Any] = {"dropout": dropout, "bias": bias, "kdim": kdim, "vdim": vdim}
        options |= {"self_attention": not cross, "encoder_decoder_attention": cross, "implementation": implementation}
        with nullcontext() if device is None else torch.device(device):
            self.attention = build_attention(text, embed_dim, num_heads, site=site, **options).to(dtype=dtype)
        self.register_load_state_dict_pre_hook(_from_torchs_names)
        self.text, self.site = text, site
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first

    @property
    def out_proj(self) -> nn.Linear:
        """The output projection, by torch's name."""
        return self.attention.out_proj

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend.

        Args:
            query: T×B×C, B×T×C with ``batch_first``, or T×C.
            key, value: likewise with S; the query's own tensor but at ``cross``.
            key_padding_mask: B×S (or S), True = hidden; or a float mask of 0, and at most -1e4 where hidden.
            need_weights: also return the weights.
            attn_mask: T×S, True = hidden; or a float mask, added to the scores. At the site ``decoder`` one that is
                given must hide the future itself.
            average_attn_weights: the mean over the heads, in the place of the weights of each.
            is_causal: without an ``attn_mask``, hide the future; beside one it changes nothing. (torch's own attention
                refuses it without a mask, and in evaluation without gradients sees the future then.)

        Returns the output, shaped as the query, and the weights B×T×S, B×H×T×S, or None. An empty input has an empty
        output, and a query that sees no key the output projection's bias.
        Raises ValueError for self-attention to another tensor, for a nested tensor, and for masks of another shape or
        of integers. Other entries of a float ``key_padding_mask`` raise RuntimeError. On a GPU they do so
        at the next wait for it, and the process cannot use that GPU any more.
        """
        if self.site != "cross" and not (query is key and key is value):
            raise ValueError(
                f"at the site {self.site!r} query, key and value are one tensor: pass one object three times, as in "
                "part = x[:5]; attention(part, part, part). Another sequence needs site='cross'"
            )
        if query.is_nested:
            raise ValueError(
                "query is a nested tensor, which torch's encoder makes after a layer of its own: "
                "set use_nested_tensor = False there"
            )
        single, batch_dim = query.dim() == 2, 0 if self.batch_first else 1

        def time_first(x: Tensor) -> Tensor:
            x = x.unsqueeze(batch_dim) if single else x
            return x.transpose(0, 1) if self.batch_first else x

        q = time_first(query)
        k, v = (q, q) if query is key and key is value else (time_first(key), time_first(value))
        _check_mask("key_padding_mask, B×S,", key_padding_mask, k.shape[:1] if single else k.shape[1::-1])
        _check_mask("attn_mask, T×S for all sentences and heads,", attn_mask, (q.size(0), k.size(0)))
        if (is_causal or self.site == "decoder") and attn_mask is None:
            attn_mask = torch.ones(q.size(0), k.size(0), dtype=torch.bool, device=q.device).triu(1)
        if key_padding_mask is not None:
            hidden = _hidden_keys(key_padding_mask)
            key_padding_mask = hidden.unsqueeze(0) if single else hidden
        out, weights = self.attention(
            q,
            k,
            v,
            key_padding_mask=key_padding_mask,
            need_weights=False,
            need_head_weights=need_weights,
            attn_mask=attn_mask,
        )
        if self.batch_first:
            out = out.transpose(0, 1)
        if weights is not None:  # H×B×T×S
            weights = weights.mean(0) if average_attn_weights else weights.transpose(0, 1)
        if single:
            return out.squeeze(batch_dim), None if weights is None else weights.squeeze(0)
        return out, weights

    def torch_state_dict(self) -> dict[str, Tensor]:
        """Return the four projections by the names in ``torch.nn.MultiheadAttention``, which can load them.

        Further parameters of the mechanism have no place there. The tensors are copies, without gradients.
        """
        ours = self.attention
        projections = [ours.q_proj, ours.k_proj, ours.v_proj]
        weights = [projection.weight.detach().clone() for projection in projections]
        found = {f"out_proj.{name}": tensor.clone() for name, tensor in ours.out_proj.state_dict().items()}
        if ours.with_bias:
            found["in_proj_bias"] = torch.cat([projection.bias.detach() for projection in projections])
        if ours.kdim == ours.vdim == ours.embed_dim:
            return {**found, "in_proj_weight": torch.cat(weights)}
        return found | dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights, strict=True))


def _check_mask(name: str, mask: Tensor | None, shape: Sequence[int]) -> None:
    """Raise ValueError for a mask of another shape, or of integers."""
    if mask is not None and (mask.shape != shape or not (mask.dtype == torch.bool or mask.is_floating_point())):
        given = f"{mask.dtype} of shape {tuple(mask.shape)}"
        raise ValueError(f"{name} must be boolean or floating, of shape {tuple(shape)}, not {given}")


def _hidden_keys(padding: Tensor) -> Tensor:
    """Return a padding mask as boolean. torch adds a float mask to the scores, so -1e4 or less counts as hidden."""
    if padding.dtype == torch.bool:
        return padding
    hidden = padding <= -1e4
    if padding.device.type in ("cpu", "cuda"):  # where torch asserts without a wait
        told = "key_padding_mask has entries that are neither 0 nor at most -1e4: give a boolean one, True = hidden"
        torch._assert_async(((padding == 0) | hidden).all(), told)
    return hidden


# A parameter of torch.nn.MultiheadAttention → its name in LocalAttention, which splits the joint ones itself.
_TORCHS_NAMES = {name: name for name in ("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias")}
_TORCHS_NAMES |= {f"{letter}_proj_weight": f"{letter}_proj.weight" for letter in "qkv"}


def _from_torchs_names(module: DescribedAttention, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Rename what ``torch.nn.MultiheadAttention`` wrote; called before a state dict is loaded."""
    for theirs, ours in _TORCHS_NAMES.items():
        if (tensor := state.pop(f"{prefix}{theirs}", None)) is not None:
            state[f"{prefix}attention.{ours}"] = tensor
    module.attention.upgrade_state_dict_named(state, f"{prefix}attention")


def attention(text: str, embed_dim: int, num_heads: int, **options: object) -> DescribedAttention:
    """Return a :class:`DescribedAttention`, which takes the place of ``torch.nn.MultiheadAttention``.

    >>> attention("2*local(window=8) + 6*global", 64, 8, batch_first=True).text
    '2*local(window=8) + 6*global'
    """
    return DescribedAttention(text, embed_dim, num_heads, **options)  # type: ignore[arg-type]
