"""fairseq's LightConv and DynamicConv on today's torch: gradients, padding, decoding, sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fairseq.modules import DynamicConv_scripatable
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_localattn.models.architectures import other_size_of
from support.models import batch, build, dictionary, loss, shifted

SOURCE, TARGET = [9, 4, 13, 1], [7, 11, 3, 5]
every_type = pytest.mark.parametrize("kind", ["lightweight", "dynamic"])


def model_of(kind: str) -> Any:
    """Return a small model whose kernels of 15 are wider than every sentence."""
    return build("lightconv_small", ["--encoder-conv-type", kind, "--decoder-conv-type", kind])


def logits(model: Any, **net_input: Tensor) -> Tensor:
    with torch.no_grad():
        return model(**net_input)[0]


@every_type
def test_what_is_trained_has_a_gradient(kind: str) -> None:
    """DDP waits for the others'."""
    model = model_of(kind).train()
    loss(model, batch(SOURCE, TARGET)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.isfinite().all() and (parameter.grad is not None) == parameter.requires_grad, name


@every_type
def test_padding_and_the_length_of_the_batch_change_nothing(kind: str) -> None:
    model, sample = model_of(kind).eval(), batch(SOURCE, TARGET)["net_input"]
    together = logits(model, **sample)
    for row, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        words = sample["src_tokens"][row]
        alone = logits(
            model,
            src_tokens=words[-source:][None],
            src_lengths=torch.tensor([source]),
            prev_output_tokens=sample["prev_output_tokens"][row : row + 1, :target],
        )
        torch.testing.assert_close(together[row, :target], alone[0], rtol=1e-4, atol=1e-5)


@every_type
def test_beam_search_scores_are_the_models(kind: str) -> None:
    """What it decodes word by word it scores so in a full pass, which is how it is trained."""
    model, words, sample = model_of(kind).eval(), dictionary(), batch(SOURCE, TARGET)
    generator = SequenceGenerator([model], words, beam_size=3, max_len_b=9, normalize_scores=False)
    for row, hypotheses in enumerate(generator.generate([model], sample)):
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"][None]
            given = {key: sample["net_input"][key][row : row + 1] for key in ("src_tokens", "src_lengths")}
            scores = logits(model, **given, prev_output_tokens=shifted(tokens)).log_softmax(-1)
            rescored = scores[0].gather(1, tokens.T).sum()
            torch.testing.assert_close(hypothesis["score"], rescored, rtol=1e-4, atol=1e-4)


def test_the_kernel_has_its_softmax_before_it_is_cut() -> None:
    """A kernel of 5 over two words, by hand: the first of them sees itself by the last of five weights."""
    torch.manual_seed(1)
    convolution = DynamicConv_scripatable(4, 5, padding_l=4, num_heads=2, weight_softmax=True).double()
    x = torch.randn(2, 1, 4, dtype=torch.double)
    weights = (x @ convolution.weight_linear.weight.T).view(2, 2, 5).softmax(-1)  # words × heads × kernel
    wanted = torch.stack(
        [
            weights[0, :, 4:5] * x[0, 0].view(2, 2),
            weights[1, :, 4:5] * x[1, 0].view(2, 2) + weights[1, :, 3:4] * x[0, 0].view(2, 2),
        ]
    ).view(2, 1, 4)
    torch.testing.assert_close(convolution(x), wanted)
    assert convolution.conv_bias.eq(0).all() and not convolution.conv_bias.requires_grad


@pytest.mark.parametrize("size", ["small", "medium"])
def test_a_row_at_another_scale_finds_its_size(size: str) -> None:
    for name in ("lightconv_iwslt_de_en", "lightconv_wmt_en_de_big"):
        assert other_size_of(name, size) == f"lightconv_{size}"
