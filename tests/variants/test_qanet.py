"""transformer_qanet: sublayers, and weights of a plain Transformer."""

from __future__ import annotations

import torch
from torch import Tensor

from fairseq_localattn.models.architectures import baseline_of
from support.models import batch, build, encode

ARCH = "transformer_qanet_tiny"


def test_convolutions_come_first_with_fairseqs_names_for_the_rest() -> None:
    """A plain Transformer's weights load: only the convolutions and their norms are missing."""
    flags = ["--qanet-decoder-layers", "2", "--qanet-kernel", "5", "--qanet-convs", "2"]
    model, plain = build(ARCH, flags), build(baseline_of(ARCH))
    missing, unexpected = model.load_state_dict(plain.state_dict(), strict=False)
    assert not unexpected and all(".conv" in key for key in missing)
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[1]
    for layer, causal in ((encoder, False), (decoder, True)):
        assert layer.order == ("conv", "conv", "san", *(["cross"] if causal else []), "ffn")
        assert [(m.kernel, m.form, m.causal) for m in (layer.conv, layer.conv2)] == [(5, "separable", causal)] * 2
    assert model.encoder.layers[1].order == ("san", "ffn")
    assert model.decoder.layers[0].order == ("san", "cross", "ffn")


def test_without_the_convolutions_output_it_is_the_plain_transformer() -> None:
    """x + f(LN(x)): with f = 0 in pre-norm the convolutions leave the encoder's output as it is."""
    flags = ["--encoder-normalize-before"]
    model, plain = build(ARCH, flags).eval(), build(baseline_of(ARCH), flags).eval()
    model.load_state_dict(plain.state_dict(), strict=False)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".point." in name:
                parameter.zero_()
    net_input = batch([9, 4], [3, 3])["net_input"]

    def features(each: torch.nn.Module) -> Tensor:
        return encode(each, net_input)["encoder_out"][0]

    torch.testing.assert_close(features(model), features(plain))
