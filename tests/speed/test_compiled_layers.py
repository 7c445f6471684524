"""Layers compiled by torch compute what they compute as they are, with attention outside of the graphs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.errors import UsageError
from fairseq_localattn.speed import layers
from support.models import batch, build, loss

COMPILED = ["--localattn-compile", "aot_eager"]
NO_DROPOUT = ["--dropout", "0", "--attention-dropout", "0"]


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Undo what compiling changes in the process."""
    before = LocalAttention.forward
    layers._keep_attention_out_of_graphs.cache_clear()
    yield
    LocalAttention.forward = before  # type: ignore[method-assign]
    layers._keep_attention_out_of_graphs.cache_clear()
    torch._dynamo.reset()


def compiled_layers(model: nn.Module) -> int:
    return sum(module._compiled_call_impl is not None for module in model.modules())


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "norm"), [
    ("transformer_mma_tiny", []),
    ("transformer_diffwin_tiny", ["--encoder-normalize-before", "--decoder-normalize-before"]),
])  # fmt: skip
def test_loss_and_gradients_are_equal(arch: str, norm: list[str]) -> None:
    found = []
    for flags in ([], COMPILED):
        model = build(arch, [*norm, *NO_DROPOUT, *flags]).train()
        results: list[torch.Tensor | None] = []
        for sample in (batch([5, 3], [4, 6]), batch([7, 2, 4], [3, 9, 5])):
            model.zero_grad()
            value = loss(model, sample)
            value.backward()
            results += [value.detach(), *(p.grad for p in model.parameters())]
        found.append((results, list(model.state_dict())))
    assert compiled_layers(model) == len(model.encoder.layers) + len(model.decoder.layers)
    assert found[0][1] == found[1][1], "parameters keep their names"
    for got, wanted in zip(found[1][0], found[0][0], strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_dropout_is_drawn_anew_in_training_and_left_out_in_validation() -> None:
    model, sample = build("transformer_mma_tiny", ["--dropout", "0.3", *COMPILED]), batch([5, 3], [4, 6])
    plain = build("transformer_mma_tiny", ["--dropout", "0.3"])
    plain.load_state_dict(model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(loss(model.eval(), sample), loss(plain.eval(), sample))
    values = [loss(model.train(), sample).item() for _ in range(3)]
    assert len(set(values)) == 3


@pytest.mark.slow
def test_decoding_runs_layers_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        model = build("transformer_mma_tiny", COMPILED).eval()
    number = compiled_layers(model)
    assert f"{number} layers compiled by aot_eager" in caplog.text
    model.prepare_for_inference_(SimpleNamespace(generation=SimpleNamespace()))
    assert number and not compiled_layers(model)


def test_compiled_layers_do_not_go_with_checkpoints_of_activations() -> None:
    with pytest.raises(UsageError, match="--localattn-compile does not go with --checkpoint-activations"):
        build("transformer_mma_tiny", [*COMPILED, "--checkpoint-activations"])
