"""Faster layers compute what fairseq's compute: dropout, residuals, ReLU, weights laid out for decoding."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn
from torch.autograd import gradcheck

from fairseq_localattn.kernels.dropout import dropout
from fairseq_localattn.kernels.projections import PADDING
from fairseq_localattn.models.transformer import LocalEncoderLayer
from fairseq_localattn.speed.layers import Dropout, ReLU, ResidualDropout, make_efficient
from support.models import batch, build, loss


def test_every_dropout_of_a_model_is_exchanged() -> None:
    model = build("transformer_mma_tiny", ["--activation-dropout", "0.2"])
    kinds = [type(module) for module in model.modules() if "ropout" in type(module).__name__]
    assert len(kinds) > 6 and set(kinds) == {Dropout, ResidualDropout}
    model.make_generation_fast_(retain_dropout=True)
    drop = model.encoder.dropout_module.eval()
    x = torch.ones(1000)
    assert drop.apply_during_inference and (drop(x) == 0).any()
    layer = model.encoder.layers[0].eval()
    assert (layer.residual_connection(torch.ones(1000), torch.zeros(1000)) == 0).any()
    layer.dropout_module.apply_during_inference = False
    assert (layer.residual_connection(torch.ones(1000), torch.zeros(1000)) == 1).all()


def test_relu_in_place_of_a_plain_linear_layer() -> None:
    layer = nn.Linear(3, 4).double()
    relu, x = ReLU(nn.ModuleDict({"fc1": layer})), torch.randn(5, 2, 3, dtype=torch.double, requires_grad=True)
    torch.testing.assert_close(relu(layer(x)), F.relu(layer(x)))
    assert gradcheck(lambda x: relu(layer(x)), (x,))
    y = layer(x)
    assert relu(y).data_ptr() == y.data_ptr()
    layer.register_forward_hook(lambda *_: None)
    y = layer(x)
    assert relu(y).data_ptr() != y.data_ptr()


@pytest.mark.parametrize("norm", [[], ["--encoder-normalize-before", "--decoder-normalize-before"]])
def test_the_residual_is_the_one_of_fairseq(norm: list[str]) -> None:
    """With dropout, loss and gradients equal those of a layer that makes a new tensor from the same masks."""
    sample = batch([5, 3], [4, 6])
    found = []
    for anew in (False, True):
        model = build("transformer_csan_tiny", norm).train()
        if anew:
            for layer in [*model.encoder.layers, *model.decoder.layers]:
                rate = layer.dropout_module.rate
                layer.residual_connection = lambda x, residual, rate=rate: residual + dropout(x, rate)
        torch.manual_seed(4)
        value = loss(model, sample)
        value.backward()
        found.append([value, *(p.grad for p in model.parameters())])
    torch.testing.assert_close(*found)


def test_a_layer_with_residuals_of_its_own_keeps_fairseqs_dropout() -> None:
    class Gated(LocalEncoderLayer):
        def residual_connection(self, x: Tensor, residual: Tensor) -> Tensor:
            return residual + 0.5 * x

    layer = build("transformer_mma_tiny").encoder.layers[0]
    layer.__class__, layer.dropout_module = Gated, FairseqDropout(0.3)
    make_efficient(nn.ModuleList([layer]))
    assert type(layer.dropout_module) is Dropout


def test_weights_are_laid_out_for_decoding_and_stay_what_they_are() -> None:
    model, sample = build("transformer_mma_tiny").eval(), batch([5, 3], [4, 6])
    before, state = loss(model, sample), {name: x.clone() for name, x in model.state_dict().items()}
    model.prepare_for_inference_(SimpleNamespace(generation=SimpleNamespace()))
    assert model.decoder.layers[0].fc1.weight.stride() == (1, 128 + PADDING)
    assert model.decoder.output_projection.weight.is_contiguous(), "the embedding's rows are looked up"
    torch.testing.assert_close(loss(model, sample), before)
    assert all(torch.equal(x, state[name]) for name, x in model.state_dict().items())


def test_the_encoders_output_is_copied_only_where_rows_change_their_sentence() -> None:
    """The result equals fairseq's, without its copies of equal rows: a beam of 2, then sentences that finish."""
    model = build("transformer_diffwin_tiny").eval()
    with torch.no_grad():
        once = model.encoder.forward_torchscript(batch([5, 3, 4], [2, 2, 2])["net_input"])
    got, wanted, copied = once, once, []
    for places in ([0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 5], [0, 1, 4, 5], [1, 1, 2, 3], [2, 3, 0, 1], [3, 3]):
        before, order = got, torch.tensor(places)
        got = model.encoder.reorder_encoder_out(before, order)
        wanted = TransformerEncoderBase.reorder_encoder_out(model.encoder, wanted, order)
        copied.append(got is not before)
        torch.testing.assert_close({name: got[name] for name in wanted}, wanted, rtol=0, atol=0)
    assert copied == [True, False, True, False, True, True]
