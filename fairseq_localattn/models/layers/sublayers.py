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

from collections.abc import Callable
from typing import Any

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules import LayerNorm
from torch import Tensor, nn

from ...core.decoding import IncrementalState
from ...errors import UsageError
from ...grammar.layers import NamedSublayer, is_plain, named_sublayers
from ...mechanisms.local_convolution import LocalConvolution
from ..builder import AttentionBuilder
from ..transformer import LocalDecoderLayer, LocalEncoderLayer

# fairseq's options of language models that its own forward pass of a decoder layer applies.
SCALES = ("scale_attn", "scale_heads", "scale_fc", "scale_resids")


class _OrderedLayer(nn.Module):
    """Mixin for fairseq's layers: the modules of all sublayers, and the call of one."""

    def add_sublayers(self: Any, builder: AttentionBuilder, site: str, layer: int, cfg: TransformerConfig) -> None:
        """Create the modules that fairseq's layer lacks."""
        plan = builder.layer(site, layer)
        self.order = plan.kinds
        self.sublayers = named_sublayers(plan.kinds, plan.plain_attention)
        ffn_dim = (cfg.encoder if site == "encoder" else cfg.decoder).ffn_embed_dim
        quantize = (self.quant_noise, self.quant_noise_block_size)
        for sublayer in self.sublayers:
            if sublayer.kind == "cross" or hasattr(self, sublayer.norm):
                continue
            if sublayer.kind == "ffn":
                first = self.build_fc1(self.embed_dim, ffn_dim, *quantize)
                second = self.build_fc2(ffn_dim, self.embed_dim, *quantize)
                module: nn.Module = nn.ModuleDict({"fc1": first, "fc2": second})
            elif sublayer.kind == "conv":
                module = builder.convolution(site, layer, sublayer.position, self.embed_dim)
            else:
                position = sublayer.position
                module = self.build_attention(site, position=position, embed_dim=self.embed_dim, self_attention=True)
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

    def __init__(self, cfg: TransformerConfig, builder: AttentionBuilder, layer: int, return_fc: bool = False) -> None:
        super().__init__(cfg, builder, layer, return_fc)
        if return_fc and not is_plain(builder.layer("encoder", layer).kinds):
            raise UsageError("return_fc asks for the output of the one feed-forward network of fairseq's own order")
        self.add_sublayers(builder, "encoder", layer, cfg)

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None, attn_mask: Tensor | None = None) -> Any:
        """Return the layer's output, T×B×C.

        Args:
            x: T×B×C.
            encoder_padding_mask: B×T, True = padding.
            attn_mask: T×T, True or 1 = hidden.
        """
        if is_plain(self.order):
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

    def __init__(self, cfg: TransformerConfig, builder: AttentionBuilder, layer: int, no_encoder_attn: bool) -> None:
        super().__init__(cfg, builder, layer, no_encoder_attn)
        self.add_sublayers(builder, "decoder", layer, cfg)
        scales = [name for name in SCALES if getattr(cfg, name, False)]
        if scales and not is_plain(self.order):
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in scales)
            order = " > ".join(kind for kind in self.order if kind != "cross" or not no_encoder_attn)
            raise UsageError(f"{flags}: layers apply it in fairseq's own order alone; drop it, or the order {order}")

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
        if is_plain(self.order):
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

        for sublayer in self.sublayers:
            if sublayer.kind != "cross":
                x = self.run_sublayer(sublayer, x, mix)
            elif cross is not None and encoder_out is not None:
                x = self.apply_with_residual(sublayer.norm, x, attend_encoder)
        return x, weights, None
