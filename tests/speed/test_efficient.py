"""What is exchanged in fairseq's layers computes what they compute: dropout, residuals, ReLU, the layout of weights."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn
from torch.autograd import gradcheck

from fairseq_localattn.kernels.dropout import dropout, dropout_and_residual, dropout_factors
from fairseq_localattn.models.transformer import LocalEncoderLayer
from fairseq_localattn.speed.layers import Dropout, ResidualDropout, make_efficient, relu_of_linear
from support.models import batch, build, loss


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dropout_drops_at_its_rate_and_keeps_the_mean(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    count, p = 1_000_001, 0.3  # no multiple of the eight numbers that a random word holds
    factors = dropout_factors(torch.empty(count, dtype=dtype), p)
    assert factors.dtype == dtype and len(factors.unique()) == 2
    dropped = factors.eq(0).double()
    deviation = (p * (1 - p) / count) ** 0.5
    assert abs(dropped.mean() - p) < 5 * deviation + 2**-17
    assert abs(factors.double().mean() - 1) < 5 * deviation / (1 - p) + torch.finfo(dtype).eps
    for lane in range(8):  # the eight numbers of a word have the same distribution
        assert abs(dropped[lane::8].mean() - p) < 14 * deviation + 2**-17
    for lag in (1, 2, 3, 4, 8, 512):  # and know next to nothing of each other
        product = (dropped[lag:] - p) * (dropped[:-lag] - p)
        assert abs(product.mean()) < 5 * p * (1 - p) / count**0.5


def test_dropout_follows_the_seed_and_its_rates_ends() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    torch.manual_seed(2)
    once = dropout(x, 0.5)
    torch.manual_seed(2)
    assert torch.equal(once, dropout(x, 0.5)) and not torch.equal(once, dropout(x, 0.5))
    once.sum().backward()
    assert torch.equal(x.grad, once.detach() / x.detach()), "the gradient has another mask"
    assert torch.equal(dropout(x, 0.0), x) and (dropout(x, 1.0) == 0).all() and dropout(x[:0], 0.5).numel() == 0
    with pytest.raises(ValueError, match="dropout"):
        dropout(x, 1.5)


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


def test_dropout_and_residual_in_one_pass() -> None:
    """What it drops it drops in the gradient too, and it leaves x's layer its gradients."""
    layer, x = nn.Linear(3, 4).double(), torch.randn(5, 2, 3, dtype=torch.double, requires_grad=True)
    residual = torch.randn(5, 2, 4, dtype=torch.double, requires_grad=True)

    def run(x: Tensor, residual: Tensor) -> Tensor:
        torch.manual_seed(3)
        return dropout_and_residual(layer(x), residual, 0.4)

    torch.manual_seed(3)
    torch.testing.assert_close(run(x, residual), residual + layer(x) * _kept_as(layer(x), 0.4))
    assert gradcheck(run, (x, residual))
    run(x, residual).sum().backward()
    kept = _kept_as(layer(x), 0.4)
    torch.testing.assert_close(layer.bias.grad, kept.sum((0, 1)))
    assert torch.equal(dropout_and_residual(layer(x), residual, 1.0), residual)


def _kept_as(x: Tensor, p: float) -> Tensor:
    """The factors of a dropout just after this seed."""
    torch.manual_seed(3)
    return dropout_factors(x, p)


def test_relu_in_place_of_a_linear_layer() -> None:
    layer, x = nn.Linear(3, 4).double(), torch.randn(5, 2, 3, dtype=torch.double, requires_grad=True)
    torch.testing.assert_close(relu_of_linear(layer(x)), F.relu(layer(x)))
    assert gradcheck(lambda x: relu_of_linear(layer(x)), (x,))


@pytest.mark.parametrize("norm", [[], ["--encoder-normalize-before", "--decoder-normalize-before"]])
def test_the_residual_is_the_one_of_fairseq(norm: list[str]) -> None:
    """With dropout on: the same masks in ours and in a layer that adds anew give the same loss and gradients."""
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
    for got, wanted in zip(*found, strict=True):
        torch.testing.assert_close(got, wanted)


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
    assert model.decoder.layers[0].fc1.weight.stride() == (1, 128)
    assert model.decoder.output_projection.weight.is_contiguous(), "the embedding's rows are looked up"
    torch.testing.assert_close(loss(model, sample), before)
    assert all(torch.equal(x, state[name]) for name, x in model.state_dict().items())


def test_the_encoders_output_is_copied_only_where_rows_change_their_sentence() -> None:
    """As fairseq's reordering, whose copies of equal rows are left out: beam of 2, then sentences that finish."""
    model = build("transformer_diffwin_tiny").eval()
    with torch.no_grad():
        once = model.encoder.forward_torchscript(batch([5, 3, 4], [2, 2, 2])["net_input"])
    plain = TransformerEncoderBase.reorder_encoder_out
    got, wanted = once, once
    orders = [[0, 0, 1, 1, 2, 2], [1, 0, 2, 2, 5, 5], [0, 1, 4, 5], [1, 1, 2, 3], [2, 3, 0, 1], [3, 3]]
    copied = []
    for order in orders:
        new, wanted = (
            model.encoder.reorder_encoder_out(got, torch.tensor(order)),
            plain(model.encoder, wanted, torch.tensor(order)),
        )
        copied.append(new is not got)
        got = new
        for name in wanted:
            assert len(got[name]) == len(wanted[name])
            assert all(torch.equal(a, b) for a, b in zip(got[name], wanted[name], strict=True)), name
    assert copied == [True, False, True, False, True, True]
