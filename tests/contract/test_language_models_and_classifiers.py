"""What language models and classifiers have besides: scores of words, features, embeddings, pruned layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.modules import AdaptiveInput, CharacterTokenEmbedder
from fairseq.sequence_scorer import SequenceScorer
from torch import nn

from support.device import assert_close, on_device, place
from support.models import CLASSES, HEAD, LM_CASES, batch_for, build, case, dictionary

PLAIN = "transformer_localattn_classifier_tiny"
LENGTHS = [9, 4, 13, 1]


@pytest.mark.parametrize("name", LM_CASES)
def test_scores_of_eval_lm_are_the_models(name: str) -> None:
    """fairseq's scorer, which fairseq-eval-lm uses: the log-probability of each word."""
    model = case(name)
    sample = batch_for(model, LENGTHS, LENGTHS)
    sample["net_input"]["src_lengths"] = on_device(torch.tensor(LENGTHS))
    scored = SequenceScorer(dictionary()).generate([model], sample)
    with torch.no_grad():
        logits = model(sample["net_input"]["src_tokens"])[0]
    log_probs = logits.log_softmax(-1).gather(2, sample["target"][..., None])[..., 0]
    for row, length in enumerate(LENGTHS):
        assert_close(scored[row][0]["positional_scores"], log_probs[row, :length], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (AdaptiveInput, ["--adaptive-input", "--adaptive-input-cutoff", "10,20", "--adaptive-softmax-cutoff", "10,20"]),
        (CharacterTokenEmbedder, ["--character-embeddings", "--character-filters", "[(1, 8)]"]),
    ],
)
def test_fairseqs_other_embeddings(kind: type[nn.Module], flags: list[str]) -> None:
    model = place(build("transformer_lm_diffwin_tiny", flags, share=False).eval())
    assert type(model.decoder.embed_tokens) is kind
    assert [layer.self_attn.kind for layer in model.decoder.layers] == ["mw", "san"]
    tokens = batch_for(model, LENGTHS, LENGTHS)["net_input"]["src_tokens"]
    features, _ = model(tokens, features_only=True)
    assert features.shape == (4, 13, 64) and features.isfinite().all()


def test_features_of_a_classifier_are_the_mean_over_the_tokens() -> None:
    """By hand from the encoder's output; without a head the features themselves come back."""
    model = place(build(PLAIN).eval())
    sample = batch_for(model, [5, 3], [5, 3], left=False)["net_input"]
    features, _ = model(sample["src_tokens"], sample["src_lengths"])
    head, scores = model.classification_heads[HEAD], model(**sample)[0]
    for row, length in enumerate((5, 3)):
        wanted = features[:length, row].mean(0) @ head.out_proj.weight.T + head.out_proj.bias
        assert_close(scores[row], wanted, rtol=1.3e-6, atol=1e-5)
    probabilities = model.get_normalized_probs((scores, None), log_probs=False)
    assert probabilities.shape == (2, CLASSES)
    assert_close(probabilities.sum(-1), on_device(torch.ones(2)), rtol=1.3e-6, atol=1e-5)


@pytest.mark.own_precision
@pytest.mark.parametrize(
    ("arch", "side", "kept", "kind"),
    [
        ("transformer_lm_diffwin_tiny", "decoder", "1", "san"),  # the window of the lower layer goes with it
        ("transformer_lm_diffwin_tiny", "decoder", "0", "mw"),
        ("transformer_diffwin_classifier_tiny", "encoder", "1", "san"),  # as overrides give it
        ("transformer_diffwin_classifier_tiny", "encoder", [1], "san"),  # as the command line does
        (PLAIN, "encoder", [1], "san"),
    ],
)
def test_pruned_layers_keep_their_numbers(arch: str, side: str, kept: object, kind: str) -> None:
    given: dict[str, Any] = {f"{side}_layers_to_keep": kept}
    model = build(arch, **given)
    assert [getattr(layer.self_attn, "kind", "san") for layer in getattr(model, side).layers] == [kind]


@pytest.mark.own_precision
def test_embeddings_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "embeddings"
    path.write_text("1 64\nw3 " + " ".join(["0.5"] * 64) + "\n")
    model = build(PLAIN, ["--encoder-embed-path", str(path)])
    assert (model.encoder.embed_tokens.weight[dictionary().index("w3")] == 0.5).all()
