"""fairseq's encoder-decoder Transformer with :class:`LocalAttention` at every site.

Only fairseq's hooks are overridden: the layers number themselves and build their attention with an
:class:`~.builder.AttentionBuilder`. fairseq's forward passes run unchanged.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar

import torch
from fairseq.data import Dictionary
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import (
    TransformerConfig,
    TransformerDecoderBase,
    TransformerEncoderBase,
    TransformerModel,
)
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..grammar.placement import count_kept_layers, kept_layers
from ..kernels.masks import future_mask
from ..kernels.passes import forward_pass
from ..speed.layers import FusedResidual
from ..speed.products import trains_in_bf16
from ..speed.runtime import configure_runtime
from .base import LocalModel
from .builder import AttentionBuilder
from .unread import with_unread_padding

# Key in the encoder's output after a reordering: for each row, the row of the original batch that it is a copy of.
ORIGINAL_ROWS = "sentences"


class LocalEncoderLayer(FusedResidual, TransformerEncoderLayerBase):
    """fairseq's encoder layer with the attention that ``builder`` gives for its number ``layer`` (from 0)."""

    def __init__(self, cfg: TransformerConfig, builder: AttentionBuilder, layer: int, return_fc: bool = False) -> None:
        self.build_attention = partial(builder.build, layer=layer)
        super().__init__(cfg, return_fc=return_fc)

    def build_self_attention(self, embed_dim: int, cfg: TransformerConfig) -> LocalAttention:
        """Return the self-attention; called by fairseq's constructor."""
        return self.build_attention("encoder", embed_dim=embed_dim, self_attention=True)


class LocalDecoderLayer(FusedResidual, TransformerDecoderLayerBase):
    """fairseq's decoder layer with the attentions that ``builder`` gives for its number ``layer`` (from 0)."""

    def __init__(self, cfg: TransformerConfig, builder: AttentionBuilder, layer: int, no_encoder_attn: bool) -> None:
        self.build_attention = partial(builder.build, layer=layer)
        super().__init__(cfg, no_encoder_attn)

    def build_self_attention(
        self, embed_dim: int, cfg: TransformerConfig, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> LocalAttention:
        """Return the self-attention; called by fairseq's constructor."""
        return self.build_attention("decoder", embed_dim=embed_dim, self_attention=not cfg.cross_self_attention)

    def build_encoder_attention(self, embed_dim: int, cfg: TransformerConfig) -> LocalAttention:
        """Return the attention to the encoder; called by fairseq's constructor."""
        width = cfg.encoder.embed_dim
        return self.build_attention(
            "cross", embed_dim=embed_dim, kdim=width, vdim=width, encoder_decoder_attention=True
        )


class _LocalStack:
    """A mixin for fairseq's encoder and decoder: builds layers that know their number, and may train in bfloat16.

    Inference does without torch.autocast, which would convert all weights in every step of decoding.
    """

    #: Whether it is the ``encoder`` or the ``decoder``.
    name: ClassVar[str]
    training: bool

    def __init__(
        self, cfg: TransformerConfig, *args: Any, builder: AttentionBuilder, layer_class: type[nn.Module], **kwargs: Any
    ) -> None:
        self.builder, self.layer_class = builder, layer_class
        self.autocast = trains_in_bf16(str(cfg.localattn_cpu_matmul))
        stack = getattr(cfg, self.name)
        # fairseq's constructor builds the layers in order and does not pass their number.
        self.layer_numbers: Iterator[int] = iter(kept_layers(stack.layers, stack.layers_to_keep))
        super().__init__(cfg, *args, **kwargs)  # type: ignore[call-arg]
        del self.layer_numbers  # an iterator cannot be copied with the model

    def next_layer(self, cfg: TransformerConfig, option: bool) -> nn.Module:
        """Return the next layer, wrapped in activation checkpointing and FSDP as fairseq wraps its own."""
        layer: nn.Module = self.layer_class(cfg, self.builder, next(self.layer_numbers), option)
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute fairseq's forward pass."""
        with torch.autocast("cpu", torch.bfloat16) if self.autocast and self.training else nullcontext():
            return super().forward(*args, **kwargs)  # type: ignore[misc]


class LocalEncoder(_LocalStack, TransformerEncoderBase):
    """fairseq's encoder with layers of class ``layer_class``."""

    name = "encoder"

    def build_encoder_layer(self, cfg: TransformerConfig) -> nn.Module:
        """Return the next layer; called by fairseq's constructor."""
        return self.next_layer(cfg, self.return_fc)

    def forward_scriptable(self, src_tokens: Tensor, *args: Any, **kwargs: Any) -> dict[str, list[Tensor]]:
        """Compute fairseq's forward pass, without waiting for a GPU; called by ``forward``."""
        with forward_pass():
            return super().forward_scriptable(with_unread_padding(src_tokens), *args, **kwargs)

    def reorder_encoder_out(self, encoder_out: dict[str, list[Tensor]], new_order: Tensor) -> dict[str, list[Tensor]]:
        """Return the encoder's output with its rows in ``new_order``, as fairseq does, but on a CPU mostly uncopied.

        Beam search calls this for every word. The hypotheses of a sentence have equal rows, so an order that only
        exchanges hypotheses within their sentences changes nothing. On a GPU the comparison would cost a
        synchronisation, and the copy is cheap.
        """
        if new_order.device.type != "cpu":
            return super().reorder_encoder_out(encoder_out, new_order)
        before = encoder_out.get(ORIGINAL_ROWS, [])
        after = before[0].index_select(0, new_order) if before else new_order
        if before and torch.equal(before[0], after):
            return encoder_out
        return {**super().reorder_encoder_out(encoder_out, new_order), ORIGINAL_ROWS: [after]}


class LocalDecoder(_LocalStack, TransformerDecoderBase):
    """fairseq's decoder with layers of class ``layer_class``."""

    name = "decoder"

    def build_decoder_layer(self, cfg: TransformerConfig, no_encoder_attn: bool = False) -> nn.Module:
        """Return the next layer; called by fairseq's constructor."""
        return self.next_layer(cfg, no_encoder_attn)

    def extract_features(self, prev_output_tokens: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, dict[str, Any]]:
        """Compute fairseq's forward pass, without waiting for a GPU; called by ``forward``."""
        with forward_pass():
            return super().extract_features(with_unread_padding(prev_output_tokens), *args, **kwargs)

    def buffered_future_mask(self, tensor: Tensor) -> Tensor:
        """Return the mask that hides the future, T×T, for x, T×B×C; elsewhere than on a CPU it is made on the device.

        fairseq copies a larger one to the device when a batch is longer than all before it.
        """
        if tensor.device.type == "cpu":
            return super().buffered_future_mask(tensor)
        return future_mask(tensor.size(0), tensor.dtype, tensor.device)


class LocalTransformerModel(LocalModel, TransformerModel):
    """Base of the translation models: fairseq's Transformer with a variant's attention in chosen sites and layers."""

    task = "translation"
    #: Arguments of ``forward`` with which no layer computes attention weights in training: no layer is number -1.
    without_weights: ClassVar[dict[str, int]] = {"alignment_layer": -1}
    #: Classes of the layers, for a variant that changes more than the attention.
    encoder_layer: ClassVar[type[LocalEncoderLayer]] = LocalEncoderLayer
    decoder_layer: ClassVar[type[LocalDecoderLayer]] = LocalDecoderLayer

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> LocalTransformerModel:
        """Return a new model; called by fairseq. Raises UsageError for invalid options."""
        args = cls.completed(args)
        for stack in ("encoder", "decoder"):
            count_kept_layers(args, stack)
        model = super().build_model(args, task)
        configure_runtime(model)
        return model

    def set_beam_size(self, beam_size: int) -> None:
        """Keep one copy of each sentence's encoder keys for all of its hypotheses; called by fairseq's generator."""
        self.decoder.set_beam_size(beam_size)

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Dictionary, embed_tokens: nn.Module) -> LocalEncoder:
        """Return the encoder; called by fairseq's ``build_model``."""
        cfg = TransformerConfig.from_namespace(args)
        builder, layer = cls.attention_builder(cfg), cls.encoder_layer
        return LocalEncoder(cfg, src_dict, embed_tokens, builder=builder, layer_class=layer)

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Dictionary, embed_tokens: nn.Module) -> LocalDecoder:
        """Return the decoder; called by fairseq's ``build_model``."""
        cfg = TransformerConfig.from_namespace(args)
        options: dict[str, Any] = {"builder": cls.attention_builder(cfg), "layer_class": cls.decoder_layer}
        return LocalDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention, **options)
