"""Convolutions before self-attention, as in the encoder blocks of QANet (Yu et al., ICLR 2018).

The model ``transformer_qanet``: its convolution is in mechanisms/local_convolution.py, its layers in
models/layers/sublayers.py. Attention is ordinary. QANet's stochastic depth is left out.
"""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import register_model

from ..mechanisms.local_convolution import FORMS
from ..models.architectures import register_sizes
from ..models.layers.sublayers import OrderedDecoderLayer, OrderedEncoderLayer
from ..models.transformer import LocalTransformerModel
from ..options import layer_option, no_layers, option


@dataclass
class QANetOptions(FairseqDataclass):
    """Options of the convolutions; the defaults are QANet's embedding encoder."""

    qanet_convs: int = option(4, "convolutions before the self-attention of a layer")
    qanet_kernel: int = option(7, "positions that a convolution sees; odd")
    qanet_form: ChoiceEnum(FORMS) = option("separable", "separable: by channel, then over the channels; or full")  # type: ignore[valid-type]
    qanet_encoder_layers: str = layer_option("encoder", "convolutions", "1-3")
    qanet_decoder_layers: str = option(
        "none", "decoder layers with convolutions over the words so far (beyond the paper)"
    )
    qanet_cross_layers: str = no_layers("a convolution is over one sentence")


@register_model("transformer_qanet")
class QANetTransformerModel(LocalTransformerModel):
    """fairseq's Transformer with convolutions before the self-attention of chosen layers."""

    prefix = "qanet"
    options = QANetOptions
    encoder_layer = OrderedEncoderLayer
    decoder_layer = OrderedDecoderLayer


register_sizes(QANetTransformerModel, lower_half=["qanet_encoder_layers"])
