"""transformer_man: orders of sublayers, names of weights, options by layer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.mechanisms.masked import DynamicMaskAttention, StaticMaskAttention
from fairseq_localattn.models.architectures import baseline_of
from support.models import build

TINY = "transformer_man_tiny"
# Order → names of the modules in the order in which they run, with the decoder's cross-attention after the last
# attention; the paper's C#1 to C#5 come first.
ORDERS = {
    "ffn,san,ffn": ["ffn", "self_attn", "encoder_attn", "fc"],
    "san,san,ffn": ["san", "self_attn", "encoder_attn", "fc"],
    "dman,dman,ffn": ["dman", "self_attn", "encoder_attn", "fc"],
    "san,dman,ffn": ["self_attn", "dman", "encoder_attn", "fc"],
    "dman,san,ffn": ["dman", "self_attn", "encoder_attn", "fc"],
    "sman,san,ffn": ["sman", "self_attn", "encoder_attn", "fc"],
    "san,ffn": ["self_attn", "encoder_attn", "fc"],
    "dman,ffn": ["self_attn", "encoder_attn", "fc"],
    "ffn,san": ["fc", "self_attn", "encoder_attn"],
    "san,ffn,ffn,dman": ["self_attn", "ffn", "fc", "dman", "encoder_attn"],
    "dman,san,dman,sman,ffn,san,dman,ffn": [
        "dman", "san", "dman2", "sman", "ffn", "self_attn", "dman3", "encoder_attn", "fc",
    ],
}  # fmt: skip
LONG = [*ORDERS][-1]
NORMS = {"self_attn": "self_attn_layer_norm", "encoder_attn": "encoder_attn_layer_norm", "fc": "final_layer_norm"}
KINDS = {"dman": DynamicMaskAttention, "sman": StaticMaskAttention, "san": LocalAttention}


def in_both(order: str, *more: str) -> list[str]:
    """Return the flags for the same order in both stacks."""
    return ["--man-encoder-order", order, "--man-decoder-order", order, *more]


def by_hand(layer: Any, steps: list[str], x: Tensor, *, pre_norm: bool, encoder_out: Tensor | None) -> Tensor:
    """Compute a layer step by step, each with its residual and its layer norm, without dropout and padding."""
    causal = None if encoder_out is None else torch.full((x.size(0), x.size(0)), float("-inf")).triu(1)
    for step in steps:
        if step == "encoder_attn" and encoder_out is None:
            continue
        norm = getattr(layer, NORMS.get(step, f"{step}_layer_norm"))
        y = norm(x) if pre_norm else x
        if step == "encoder_attn":
            y, _ = layer.encoder_attn(y, encoder_out, encoder_out)
        elif step in ("fc", "ffn"):
            network = layer if step == "fc" else layer.ffn
            fc1, fc2 = (network.fc1, network.fc2) if step == "fc" else (network["fc1"], network["fc2"])
            y = fc2(torch.relu(fc1(y)))
        else:
            y, _ = getattr(layer, step)(y, y, y, attn_mask=causal)
        x = x + y if pre_norm else norm(x + y)
    return x


# Where norms stand is independent of the order.
@pytest.mark.parametrize(
    ("order", "norm"), [*((order, "pre") for order in ORDERS), ("dman,ffn", "post"), (LONG, "post")]
)
def test_sublayers_run_in_the_order_asked_for(order: str, norm: str) -> None:
    model = build(TINY, in_both(order, *(["--man-post-norm"] if norm == "post" else []))).eval()
    generator = torch.Generator().manual_seed(0)
    x, encoder_out = (torch.randn(6, 3, 64, generator=generator) for _ in range(2))
    encoder, decoder = model.encoder.layers[1], model.decoder.layers[1]
    for layer in (encoder, decoder):  # different layer norms, so that confusing two of them shows
        for name, parameter in layer.named_parameters():
            if "layer_norm" in name:
                torch.nn.init.normal_(parameter, mean=1.0, std=0.3, generator=generator)
    steps = ORDERS[order]
    names = [name for name in steps if name not in ("fc", "ffn", "encoder_attn")]
    wanted = [KINDS[kind] for kind in order.split(",") if kind != "ffn"]
    assert all([type(getattr(layer, name)) for name in names] == wanted for layer in (encoder, decoder))
    expected = by_hand(encoder, steps, x, pre_norm=norm == "pre", encoder_out=None)
    torch.testing.assert_close(encoder(x, None), expected, rtol=1e-4, atol=1e-5)
    future = torch.full((6, 6), float("-inf")).triu(1)
    got, weights, _ = decoder(x, encoder_out, self_attn_mask=future, need_attn=True)
    expected = by_hand(decoder, steps, x, pre_norm=norm == "pre", encoder_out=encoder_out)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert weights.shape == (3, 6, 6)


@pytest.mark.parametrize("order", ["san,ffn", LONG])
def test_every_sublayer_has_dropout_and_residual(order: str) -> None:
    """With dropout 1 only the residuals are left; the activation dropout is applied in every FFN."""
    model = build(TINY, in_both(order)).train()
    layer, decoder = model.encoder.layers[0], model.decoder.layers[0]
    x = torch.randn(5, 2, 64)
    for each in (layer, decoder):
        each.dropout_module.p = 1.0
    assert torch.equal(layer(x, None), x) and torch.equal(decoder(x, x)[0], x)
    for each in (layer, decoder):
        each.dropout_module.p, each.activation_dropout_module.p = 0.0, 1.0
        for network in [(each.fc1, each.fc2)] + ([tuple(each.ffn.values())] if hasattr(each, "ffn") else []):
            torch.nn.init.zeros_(network[1].bias)
        for module in each.modules():
            if isinstance(module, LocalAttention):
                torch.nn.init.zeros_(module.out_proj.weight)
                torch.nn.init.zeros_(module.out_proj.bias)
    for output in (layer(x, None), decoder(x, x)[0]):
        assert torch.equal(output, x), "a feed-forward network without activation dropout"


def test_masks_and_attention_weights_are_as_in_fairseqs_layers() -> None:
    """The encoder layer uses ``attn_mask``; the decoder layer returns weights exactly when fairseq's does."""
    ours = build(TINY, in_both("san,san,ffn")).eval()
    plain = build(baseline_of(TINY), ["--encoder-normalize-before", "--decoder-normalize-before"]).eval()
    x, mask = torch.randn(5, 2, 64), torch.ones(5, 5).triu(1)
    encoder, decoder = ours.encoder.layers[0], ours.decoder.layers[0]
    changed = x.clone()
    changed[4] = torch.randn(2, 64)
    torch.testing.assert_close(encoder(x, None, mask)[:4], encoder(changed, None, mask)[:4])
    assert (encoder(x, None)[:4] - encoder(changed, None)[:4]).abs().max() > 1e-3
    for training in (True, False):
        for asked in ({}, {"need_attn": True}, {"need_head_weights": True}):
            got, wanted = (layer.train(training)(x, x, **asked)[1] for layer in (decoder, plain.decoder.layers[0]))
            assert (got is None) == (wanted is None) and (got is None or got.shape == wanted.shape), (training, asked)
    decoder.make_generation_fast_(need_attn=False)
    assert decoder(x, x)[1] is None


@pytest.mark.parametrize("order", ["dman,san,ffn", "san,dman,ffn", "ffn,san,ffn", "san,ffn,sman"])
def test_weights_of_a_plain_transformer_are_loaded(order: str) -> None:
    """With san and ffn in the order, only the weights of additional sublayers are missing."""
    stock = build(baseline_of(TINY), ["--encoder-normalize-before", "--decoder-normalize-before"])
    result = build(TINY, in_both(order)).load_state_dict(stock.state_dict(), strict=False)
    assert result.unexpected_keys == []
    additional = {name for name in ORDERS.get(order, ["sman"]) if name not in NORMS}
    assert {key.split(".")[3].removesuffix("_layer_norm") for key in result.missing_keys} == additional


def test_placement_and_options_by_layer() -> None:
    """Layers that are not placed have fairseq's order; the stacks have orders of their own."""
    flags = "--man-encoder-layers 2 --man-decoder-order ffn,san,dman,sman,ffn --man-decoder-layers 1 "
    flags += "--man-static-width 6 --man-max-distance 9 --man-head-activation gelu "
    flags += "--encoder-ffn-embed-dim 96 --decoder-ffn-embed-dim 160"
    model = build(TINY, flags.split())
    assert [layer.order for layer in model.encoder.layers] == [("san", "ffn"), ("dman", "san", "ffn")]
    lower, upper = (layer.order for layer in model.decoder.layers)
    assert lower == ("ffn", "san", "dman", "sman", "cross", "ffn") and upper == ("san", "cross", "ffn")
    for stack, width, networks in ((model.encoder, 96, 2), (model.decoder, 160, 3)):
        weights = [weight for name, weight in stack.named_parameters() if name.endswith("fc1.weight")]
        assert [weight.shape for weight in weights] == [(width, 64)] * networks
    encoder, decoder = model.encoder.layers[1], model.decoder.layers[0]
    assert [layer.dman.distance_mask.numel() for layer in (encoder, decoder)] == [19, 10]
    assert decoder.sman.boundary == 6 and decoder.sman.causal
    attentions = [module for module in model.modules() if isinstance(module, LocalAttention)]
    assert len(attentions) == 3 + 6 and {module.activation for module in attentions} == {"gelu"}
    assert build(TINY, in_both("sman,san,ffn", "--man-static-width", "sqrt")).encoder.layers[0].sman.boundary is None
