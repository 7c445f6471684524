"""The weights of the attention to the encoder, ``extra["attn"]``, in training and evaluation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.models.transformer import TransformerDecoderBase as Decoder
from torch import Tensor

from fairseq_localattn.criterions.label_smoothed import LabelSmoothedCrossEntropyCriterion
from support.models import batch, build, dictionary


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch) -> list[Tensor | None]:
    """``extra["attn"]`` of every call of a decoder."""
    found: list[Tensor | None] = []
    compute = Decoder.extract_features

    def record(self: Any, *args: Any, **kwargs: Any) -> Any:
        x, extra = compute(self, *args, **kwargs)
        found.extend(extra["attn"])
        return x, extra

    monkeypatch.setattr(Decoder, "extract_features", record)
    return found


class Theirs(CrossEntropyCriterion):
    """A criterion of a user."""


class Ours(LabelSmoothedCrossEntropyCriterion):
    """A user's extension of a criterion of this package."""


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("arch", ["transformer_mma_tiny", "transformer_mgsa_ngram_tiny", "transformer_man_tiny"])
def test_every_caller_but_known_criterions_gets_the_weights(arch: str, train: bool, weights: list[Any]) -> None:
    model, sample = build(arch).train(train), batch([5, 3], [4, 6])
    (wanted,) = build("transformer").train(train)(**sample["net_input"])[1]["attn"]
    assert model(**sample["net_input"])[1]["attn"][0].shape == wanted.shape == (2, 6, 5)
    task = SimpleNamespace(target_dictionary=dictionary())
    known = CRITERION_REGISTRY["cross_entropy"], CRITERION_REGISTRY["label_smoothed_cross_entropy"]
    for kind in (*known, Theirs, Ours):
        smoothing = {} if issubclass(kind, CrossEntropyCriterion) else {"label_smoothing": 0.1}
        weights.clear()
        loss = kind(task, sentence_avg=False, **smoothing)(model, sample)[0]
        assert loss.isfinite() and len(weights) == 1
        assert (weights[0] is None) == (kind in known), kind
    model.decoder.layers[-1].encoder_attn.register_forward_hook(lambda *_: None)
    weights.clear()
    known[0](task, sentence_avg=False)(model, sample)
    assert weights[0].shape == (2, 6, 5)


@pytest.mark.parametrize("name", ["cross_entropy", "label_smoothed_cross_entropy"])
def test_known_criterions_take_other_models(name: str) -> None:
    """Models of fairseq and language models have no such argument, or no such weights."""
    task = SimpleNamespace(target_dictionary=dictionary())
    smoothing = {"label_smoothing": 0.1} if "smoothed" in name else {}
    criterion = CRITERION_REGISTRY[name](task, sentence_avg=False, **smoothing)
    assert type(criterion).__name__ == type(criterion).__mro__[2].__name__, "checkpoints have the name of fairseq's"
    sample = batch([5, 3], [4, 6])
    for model in (build("transformer"), build("transformer_lm_diffwin_tiny"), build("transformer_lm")):
        lm = not hasattr(model, "encoder")
        inputs = {"src_tokens": sample["net_input"]["prev_output_tokens"]} if lm else sample["net_input"]
        loss = criterion(model.train(), {**sample, "net_input": inputs})[0]
        loss.backward()
        assert torch.isfinite(loss)
