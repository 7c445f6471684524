"""Requirements on every classifier. A new one joins by its ``_tiny`` architecture (support/models.py)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_localattn.models.architectures import baseline_of
from support.device import assert_close, on_device, place
from support.mechanisms.inputs import labelled
from support.models import (
    CLASSES,
    CLASSIFIER_CASES,
    CLASSIFIERS,
    HEAD,
    assert_gradients,
    build_classifier,
    dictionary,
    pad,
    parse,
    placed_nowhere,
    sentences,
)

PLAIN = "transformer_localattn_classifier_tiny"
CASES = {PLAIN: (PLAIN, []), **CLASSIFIER_CASES}
every_case = pytest.mark.parametrize("name", CASES)
every_side = pytest.mark.parametrize("left", [True, False])
LENGTHS = [9, 4, 13, 1]
LABELS = torch.tensor([0, 1, 2, 1])


def case(name: str, seed: int = 1) -> Any:
    arch, flags = CASES[name]
    return place(build_classifier(arch, flags, seed).eval())


def scores(model: nn.Module, tokens: Tensor) -> Tensor:
    lengths = tokens.ne(dictionary().pad()).sum(1)
    return model(tokens, lengths, features_only=True, classification_head_name=HEAD)[0]


@pytest.mark.parametrize("arch", [name for name in CLASSIFIER_CASES if name in CLASSIFIERS])
@pytest.mark.parametrize("flags", [[], ["--encoder-normalize-before", "--encoder-learned-pos"]], ids=" ".join)
def test_placed_nowhere_it_is_the_plain_classifier(arch: str, flags: list[str]) -> None:
    """Same keys, same weights from the same seed, same scores and gradients."""
    ours = place(build_classifier(arch, [*flags, *placed_nowhere(arch)]).eval())
    theirs = place(build_classifier(baseline_of(arch), flags).eval())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    tokens = pad(sentences(LENGTHS), False)
    results = []
    for model in (ours, theirs):
        F.cross_entropy(scores(model, tokens), on_device(LABELS)).backward()
        results.append(scores(model, tokens))
    assert_close(results[0], results[1], rtol=0, atol=1e-6)
    for (key, got), wanted in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.equal(got, wanted), key
        assert_close(got.grad, wanted.grad, rtol=0, atol=1e-6, msg=labelled(key))


@every_case
@every_side
def test_padding_changes_nothing(name: str, left: bool) -> None:
    model = case(name)
    with torch.no_grad():
        together = scores(model, pad(sentences(LENGTHS), left, to=17))
        for row, sentence in enumerate(sentences(LENGTHS)):
            assert_close(together[row], scores(model, sentence[None])[0], rtol=1e-4, atol=1e-5)


def test_features_are_the_mean_over_the_tokens() -> None:
    """By hand from the encoder's output; without a head the features themselves come back."""
    model, tokens = case(PLAIN), pad(sentences([5, 3]), False)
    features, _ = model(tokens, on_device(torch.tensor([5, 3])))
    head = model.classification_heads[HEAD]
    for row, length in enumerate((5, 3)):
        wanted = features[:length, row].mean(0) @ head.out_proj.weight.T + head.out_proj.bias
        assert_close(scores(model, tokens)[row], wanted, rtol=1.3e-6, atol=1e-5)
    probabilities = model.get_normalized_probs((scores(model, tokens), None), log_probs=False)
    assert probabilities.shape == (2, CLASSES)
    assert_close(probabilities.sum(-1), on_device(torch.ones(2)), rtol=1.3e-6, atol=1e-5)


@every_case
def test_every_parameter_gets_a_gradient(name: str) -> None:
    model = case(name).train()
    F.cross_entropy(scores(model, pad(sentences(LENGTHS), False)), on_device(LABELS)).backward()
    assert_gradients(model)


@pytest.mark.own_precision
@every_case
@pytest.mark.parametrize(("left", "dtype"), [(True, torch.float16), (False, torch.bfloat16)])
def test_half_precision_stays_finite(name: str, left: bool, dtype: torch.dtype) -> None:
    """With much padding, and a sentence that is all padding."""
    model, tokens = case(name), pad(sentences(LENGTHS), left, to=40)
    tokens[1] = dictionary().pad()
    half = copy.deepcopy(model).to(dtype)
    got = scores(half, tokens)
    assert got.isfinite().all()
    keep = [0, 2, 3]
    assert_close(got[keep].float(), scores(model, tokens)[keep], rtol=0.05, atol=0.05)
    F.cross_entropy(got.float(), on_device(LABELS)).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in half.parameters())


@pytest.mark.own_precision
@pytest.mark.parametrize("arch", CLASSIFIERS)
def test_sizes_are_those_that_are_stated(arch: str) -> None:
    with torch.device("meta"):
        model, plain = build_classifier(arch), build_classifier(baseline_of(arch))
    args = parse(arch)
    for encoder in (model.encoder, plain.encoder):
        assert len(encoder.layers) == args.encoder_layers == 2
        assert encoder.layers[0].self_attn.num_heads == args.encoder_attention_heads == 4
        shape = (args.encoder_ffn_embed_dim, args.encoder_embed_dim)
        assert encoder.layers[0].fc1.weight.shape == shape
        assert arch.endswith("_tiny") or shape == (512, 128)


@pytest.mark.own_precision
@pytest.mark.parametrize("arch", [PLAIN, "transformer_diffwin_classifier_tiny"])
@pytest.mark.parametrize("kept", ["1", [1]])  # as overrides give it, and as the command line does
def test_pruned_layers_keep_their_numbers(arch: str, kept: object) -> None:
    model = build_classifier(arch, encoder_layers_to_keep=kept)
    assert [getattr(layer.self_attn, "kind", "san") for layer in model.encoder.layers] == ["san"]


@pytest.mark.own_precision
def test_embeddings_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "embeddings"
    path.write_text("1 64\nw3 " + " ".join(["0.5"] * 64) + "\n")
    model = build_classifier(PLAIN, ["--encoder-embed-path", str(path)])
    assert (model.encoder.embed_tokens.weight[dictionary().index("w3")] == 0.5).all()
