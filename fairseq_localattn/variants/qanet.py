"""Convolutions before self-attention, as in the encoder blocks of QANet (Yu et al., ICLR 2018).

The model ``transformer_qanet``: its convolution is in mechanisms/local_convolution.py, its layers in
models/layers/sublayers.py. Attention is ordinary.
"""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model

from ..grammar import presets
from ..mechanisms.local_convolution import FORMS
from ..models.architectures import register_architecture
from ..models.layers.sublayers import OrderedDecoderLayer, OrderedEncoderLayer
from ..models.transformer import LocalTransformerModel


@dataclass
class QANetOptions(FairseqDataclass):
    """Options of the convolutions; the defaults are QANet's embedding encoder."""

    qanet_convs: int = field(default=4, metadata={"help": "convolutions before the self-attention of a layer"})
    qanet_kernel: int = field(default=7, metadata={"help": "positions that a convolution sees; odd"})
    qanet_form: ChoiceEnum(FORMS) = field(  # type: ignore[valid-type]
        default="separable", metadata={"help": "separable: by channel, then over the channels; or full"}
    )
    qanet_encoder_layers: str = field(
        default="1-3", metadata={"help": "encoder layers with convolutions: all, none, or numbers from 1 (1-3, 1,4-6)"}
    )
    qanet_decoder_layers: str = field(
        default="none", metadata={"help": "decoder layers with convolutions over the words so far (beyond the paper)"}
    )
    qanet_cross_layers: str = field(
        default="none", metadata={"help": "must stay none: a convolution is over one sentence"}
    )


@register_model("transformer_qanet")
class QANetTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with convolutions before the self-attention of chosen layers."""

    prefix = "qanet"
    options = QANetOptions
    encoder_layer = OrderedEncoderLayer
    decoder_layer = OrderedDecoderLayer

    text = staticmethod(presets.qanet)


for _suffix, _baseline, _layers in (
    ("", "transformer", "1-3"),
    ("_tiny", "transformer_localattn_tiny", "1"),
    ("_small", "transformer_localattn_small", "1-2"),
    ("_medium", "transformer_localattn_medium", "1-2"),
    ("_iwslt_de_en", "transformer_iwslt_de_en", "1-3"),
    ("_wmt_en_de", "transformer_wmt_en_de", "1-3"),
    ("_wmt_en_de_big", "transformer_vaswani_wmt_en_de_big", "1-3"),
):
    _name = f"transformer_qanet{_suffix}"
    register_architecture("transformer_qanet", _name, _baseline, QANetOptions, qanet_encoder_layers=_layers)
