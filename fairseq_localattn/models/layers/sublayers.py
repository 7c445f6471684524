"""Layers whose sublayers have a chosen order, such as ``dman,san,ffn`` (MAN, Fan et al. 2021, Section 2.5 and Table 3).

Each sublayer has its own residual connection, dropout and layer norm, which stands before or after the sublayer as
fairseq's ``--{encoder,decoder}-normalize-before`` says. In a decoder, cross-attention follows the last self-attention.
A sublayer ``conv`` is a convolution over positions (QANet, Yu et al. 2018).

Modules that fairseq's layers have keep fairseq's names, so that the weights of a plain Transformer can be loaded: the
last ``san`` (without ``san``, the last attention) is ``self_attn``, and the last ``ffn`` is ``fc1``, ``fc2`` and
``final_layer_norm``. All other sublayers are named by their kind, numbered from the second on (``dman``, ``dman2``,
``ffn``), with their layer norms in ``…_layer_norm``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerNorm
from torch import Tensor, nn

from ...core.attention import IncrementalState, LocalAttention
from ...errors import UsageError
from ...mechanisms.local_convolution import LocalConvolution
from ..base import AttentionBuilder, AttentionFactory
from ..placement import Placement
from ..transformer import LocalDecoderLayer, LocalEncoderLayer

Order = tuple[str, ...]

ATTENTIONS = ("dman", "sman", "san")
PLAIN_ORDER: Order = ("san", "ffn")


class NamedSublayer(NamedTuple):
    """A sublayer's kind, and the names of its module and of its layer norm (attributes of the layer).

    ``name`` is empty for the feed-forward network of fairseq's layer, ``fc1`` and ``fc2``.
    """

    kind: str
    name: str
    norm: str


def parse_order(text: str, flag: str) -> Order:
    """Return the kinds of the sublayers from text such as ``dman,san,ffn``.

    Raises UsageError, naming ``flag``, for an unknown kind and for an order without self-attention or without ffn.
    """
    order = tuple(part.strip().lower() for part in text.split(","))
    for kind in order:
        if kind not in (*ATTENTIONS, "ffn"):
            raise UsageError(f"{flag} {text}: unknown sublayer {kind!r}; choose from {', '.join(ATTENTIONS)}, ffn")
    if not set(order) & set(ATTENTIONS):
        raise UsageError(f"{flag} {text}: no word would see another; the order needs san, dman or sman")
    if "ffn" not in order:
        raise UsageError(f"{flag} {text}: the order needs ffn, the feed-forward network, at least once")
    return order


def plain_positions(order: Order) -> tuple[int, int]:
    """Return the positions in ``order`` of the self-attention and of the ffn that have fairseq's names."""
    candidates = ("san",) if "san" in order else ATTENTIONS
    attention = max(position for position, kind in enumerate(order) if kind in candidates)
    return attention, max(position for position, kind in enumerate(order) if kind == "ffn")


def named_sublayers(order: Order) -> list[NamedSublayer]:
    """Return the sublayers of a layer with the names of their modules."""
    attention, ffn = plain_positions(order)
    named: list[NamedSublayer] = []
    for position, kind in enumerate(order):
        if position == attention:
            named.append(NamedSublayer(kind, "self_attn", "self_attn_layer_norm"))
        elif position == ffn:
            named.append(NamedSublayer(kind, "", "final_layer_norm"))
        else:
            number = 1 + sum(other.name.rstrip("0123456789") == kind for other in named)
            name = kind if number == 1 else f"{kind}{number}"
            named.append(NamedSublayer(kind, name, f"{name}_layer_norm"))
    return named


class OrderedAttentionBuilder(AttentionBuilder):
    """Builds the attentions of layers with several sublayers.

    Args:
        make_variant: builds an attention of any kind, ``san`` included, which it is given by keyword as ``kind``.
        placement: the layers that have the order of their stack; all others have fairseq's order.
        orders: the order of each site, ``encoder`` and ``decoder``.
        make_convolution: builds a sublayer ``conv`` from its site and its channels; needed where an order has one.
    """

    def __init__(
        self,
        make_variant: AttentionFactory,
        placement: Placement,
        orders: Mapping[str, Order],
        make_convolution: Callable[[str, int], LocalConvolution] | None = None,
    ) -> None:
        super().__init__(make_variant, placement)
        self.orders, self.make_convolution = orders, make_convolution

    def order(self, site: str, layer: int) -> Order:
        """Return the kinds of a layer's sublayers."""
        return self.orders[site] if self.placement.includes(site, layer) else PLAIN_ORDER

    def make(self, site: str, layer: int, kind: str | None = None, **kwargs: Any) -> LocalAttention:
        """Return an attention of the given kind; without one, the layer's ``self_attn`` or its cross-attention."""
        if kind is None:
            order = PLAIN_ORDER if site == "cross" else self.order(site, layer)
            kind = order[plain_positions(order)[0]]
        return self.make_variant(site, kind=kind, **kwargs)


class _OrderedLayer(nn.Module):
    """Mixin for fairseq's layers: the modules of all sublayers, and the call of one."""

    def add_sublayers(
        self: Any, builder: OrderedAttentionBuilder, site: str, layer: int, cfg: TransformerConfig
    ) -> None:
        """Create the modules that fairseq's layer lacks."""
        self.order = builder.order(site, layer)
        self.sublayers = named_sublayers(self.order)
        ffn_dim = (cfg.encoder if site == "encoder" else cfg.decoder).ffn_embed_dim
        quantize = (self.quant_noise, self.quant_noise_block_size)
        for sublayer in self.sublayers:
            if hasattr(self, sublayer.norm):
                continue
            if sublayer.kind == "ffn":
                first = self.build_fc1(self.embed_dim, ffn_dim, *quantize)
                second = self.build_fc2(ffn_dim, self.embed_dim, *quantize)
                module: nn.Module = nn.ModuleDict({"fc1": first, "fc2": second})
            elif sublayer.kind == "conv":
                assert builder.make_convolution is not None
                module = builder.make_convolution(site, self.embed_dim)
            else:
                module = self.build_attention(site, kind=sublayer.kind, embed_dim=self.embed_dim, self_attention=True)
            self.add_module(sublayer.name, module)
            self.add_module(sublayer.norm, LayerNorm(self.embed_dim, export=cfg.export))

    def run_sublayer(
        self: Any,
        sublayer: NamedSublayer,
        x: Tensor,
        mix: Callable[[Any, Tensor], Tensor],
    ) -> Tensor:
        """Apply one sublayer to x, T×B×C; ``mix(module, x)`` calls a self-attention or a convolution."""
        if sublayer.kind != "ffn":
            module = getattr(self, sublayer.name)
            return self.apply_with_residual(sublayer.norm, x, lambda y: mix(module, y))
        networks = getattr(self, sublayer.name) if sublayer.name else {"fc1": self.fc1, "fc2": self.fc2}

        def feed_forward(y: Tensor) -> Tensor:
            y = self.activation_dropout_module(self.activation_fn(networks["fc1"](y)))
            return networks["fc2"](y)

        return self.apply_with_residual(sublayer.norm, x, feed_forward)

    def apply_with_residual(self: Any, norm_name: str, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply ``function`` to x, T×B×C, with dropout, residual connection, and layer norm before or after."""
        norm = getattr(self, norm_name)
        y = function(norm(x) if self.normalize_before else x)
        y = self.residual_connection(self.dropout_module(y), x)
        return y if self.normalize_before else norm(y)


class OrderedEncoderLayer(_OrderedLayer, LocalEncoderLayer):
    """fairseq's encoder layer with sublayers in any order; in fairseq's own order it runs fairseq's forward pass."""

    def __init__(
        self, cfg: TransformerConfig, builder: OrderedAttentionBuilder, layer: int, return_fc: bool = False
    ) -> None:
        super().__init__(cfg, builder, layer, return_fc)
        if return_fc and builder.order("encoder", layer) != PLAIN_ORDER:
            raise UsageError("return_fc asks for the output of the one feed-forward network of fairseq's own order")
        self.add_sublayers(builder, "encoder", layer, cfg)

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None, attn_mask: Tensor | None = None) -> Any:
        """Return the layer's output, T×B×C.

        Args:
            x: T×B×C.
            encoder_padding_mask: B×T, True = padding.
            attn_mask: T×T, True or 1 = hidden.
        """
        if self.order == PLAIN_ORDER:
            return super().forward(x, encoder_padding_mask, attn_mask)
        mask = None if attn_mask is None else attn_mask.to(torch.bool)

        def mix(module: Any, y: Tensor) -> Tensor:
            if isinstance(module, LocalConvolution):
                return module(y, encoder_padding_mask)
            return module(y, y, y, key_padding_mask=encoder_padding_mask, need_weights=False, attn_mask=mask)[0]

        for sublayer in self.sublayers:
            x = self.run_sublayer(sublayer, x, mix)
        return x


class OrderedDecoderLayer(_OrderedLayer, LocalDecoderLayer):
    """fairseq's decoder layer with sublayers in any order; in fairseq's own order it runs fairseq's forward pass."""

    def __init__(
        self, cfg: TransformerConfig, builder: OrderedAttentionBuilder, layer: int, no_encoder_attn: bool
    ) -> None:
        super().__init__(cfg, builder, layer, no_encoder_attn)
        self.add_sublayers(builder, "decoder", layer, cfg)
        self.last_attention = max(i for i, sublayer in enumerate(self.sublayers) if sublayer.kind in ATTENTIONS)

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        self_attn_mask: Tensor | None = None,
        self_attn_padding_mask: Tensor | None = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
        **onnx_state: Any,
    ) -> tuple[Tensor, Tensor | None, None]:
        """Return the layer's output T×B×C, the weights of cross-attention, and None, as fairseq's layer does.

        The weights are B×T×S, or H×B×T×S with ``need_head_weights``; None unless asked for.

        Args:
            x: T×B×C.
            encoder_out: S×B×C.
            encoder_padding_mask: B×S, True = padding.
            incremental_state: fairseq's decoding state.
            self_attn_mask: T×T, added to the logits.
            self_attn_padding_mask: B×T, True = padding.
            onnx_state: further arguments, which fairseq's export to ONNX passes; refused with UsageError.
        """
        if self.order == PLAIN_ORDER:
            masks = {"self_attn_mask": self_attn_mask, "self_attn_padding_mask": self_attn_padding_mask}
            need = {"need_attn": need_attn, "need_head_weights": need_head_weights}
            return super().forward(
                x, encoder_out, encoder_padding_mask, incremental_state, **masks, **need, **onnx_state
            )
        if any(state is not None for state in onnx_state.values()):
            raise UsageError(
                f"export to ONNX needs fairseq's own order of sublayers, san,ffn, not {','.join(self.order)}"
            )

        def mix(module: Any, y: Tensor) -> Tensor:
            if isinstance(module, LocalConvolution):
                return module(y, self_attn_padding_mask, incremental_state)
            masks = {"key_padding_mask": self_attn_padding_mask, "attn_mask": self_attn_mask}
            return module(y, y, y, incremental_state=incremental_state, need_weights=False, **masks)[0]

        cross: Any = self.encoder_attn
        weights: Tensor | None = None

        def attend_encoder(y: Tensor) -> Tensor:
            nonlocal weights
            y, weights = cross(
                query=y,
                key=encoder_out,
                value=encoder_out,
                key_padding_mask=encoder_padding_mask,
                incremental_state=incremental_state,
                static_kv=True,
                need_weights=need_attn or need_head_weights or (not self.training and self.need_attn),
                need_head_weights=need_head_weights,
            )
            return y

        for position, sublayer in enumerate(self.sublayers):
            x = self.run_sublayer(sublayer, x, mix)
            if position == self.last_attention and cross is not None and encoder_out is not None:
                x = self.apply_with_residual("encoder_attn_layer_norm", x, attend_encoder)
        return x, weights, None
