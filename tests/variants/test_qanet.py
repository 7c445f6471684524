"""transformer_qanet: sublayers, parameters, forms, invalid options, weights of a plain Transformer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fairseq_localattn.errors import UsageError
from fairseq_localattn.models.architectures import baseline_of
from support.models import batch, build, encode, parse

ARCH = "transformer_qanet_tiny"


@pytest.mark.parametrize(
    ("flags", "more"),
    [([], 3_207_168), (["--qanet-form", "full", "--qanet-encoder-layers", "all"], 44_077_056)],
)
def test_parameters_of_the_table(flags: list[str], more: int) -> None:
    with torch.device("meta"):
        model, plain = build("transformer_qanet", flags), build(baseline_of("transformer_qanet"))
    assert sum(p.numel() for p in model.parameters()) - sum(p.numel() for p in plain.parameters()) == more


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


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--qanet-kernel", "4"], "--qanet-kernel 4: give an odd number of positions"),
        (["--qanet-kernel", "-1"], "--qanet-kernel -1"),
        (["--qanet-kernel", "10001"], "--qanet-kernel 10001: give an odd number of positions, 9,999 or less"),
        (["--qanet-convs", "0"], "--qanet-convs 0: give 1 or more"),
        (["--qanet-convs", "100"], "--qanet-convs 100: give 1 or more, and 99 or less"),
        (["--qanet-cross-layers", "1"], "--qanet-cross-layers: a convolution is over the positions of one sentence"),
        (["--qanet-decoder-layers", "3"], "layer 3 is asked for, and the stack has 2"),
    ],
)
def test_invalid_options(flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(ARCH, flags)
