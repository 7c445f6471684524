"""Requirements on every language model. A new one joins by its ``_tiny`` architecture (support/models.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fairseq.modules import AdaptiveInput, CharacterTokenEmbedder
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor, nn

from fairseq_localattn.models.architectures import baseline_of
from support.device import assert_close, least_effect, on_device, place
from support.mechanisms.inputs import labelled
from support.models import (
    LANGUAGE_MODELS,
    LM_CASES,
    assert_gradients,
    build_lm,
    dictionary,
    pad,
    parse,
    placed_nowhere,
    sentences,
    shifted,
)

every_case = pytest.mark.parametrize("name", LM_CASES)
LENGTHS = [9, 4, 13, 1]


def case(name: str, seed: int = 1, share: bool = True) -> Any:
    arch, flags = LM_CASES[name]
    return place(build_lm(arch, flags, seed, share).eval())


def targets(lengths: list[int] = LENGTHS, to: int | None = None) -> Tensor:
    """Return sentences padded on the right, as fairseq's language modelling task pads them."""
    return pad(sentences(lengths), False, to=to)


def logits(model: nn.Module, target: Tensor) -> Tensor:
    with torch.no_grad():
        return model(shifted(target))[0]


def loss(model: nn.Module, target: Tensor) -> Tensor:
    out = model(shifted(target))[0].float().flatten(0, 1)
    return F.cross_entropy(out, target.flatten(), ignore_index=dictionary().pad(), reduction="sum")


@pytest.mark.parametrize("arch", [name for name in LM_CASES if name in LANGUAGE_MODELS])
@pytest.mark.parametrize("flags", [[], ["--decoder-learned-pos", "--layernorm-embedding", "--checkpoint-activations"]])
def test_placed_nowhere_it_is_fairseqs_language_model(arch: str, flags: list[str]) -> None:
    """Same state-dict keys; with the same weights the same outputs and gradients."""
    ours = place(build_lm(arch, [*flags, *placed_nowhere(arch)], share=False).eval())
    theirs = place(build_lm(baseline_of(arch), flags, share=False).eval())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    losses = [loss(model, targets()) / sum(LENGTHS) for model in (ours, theirs)]
    assert_close(losses[0], losses[1], rtol=0, atol=1e-6)
    for value in losses:
        value.backward()
    for (key, got), wanted in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert_close(got.grad, wanted.grad, rtol=0, atol=1e-6, msg=labelled(key))


@every_case
def test_no_position_sees_the_future(name: str) -> None:
    """With as many sentences as positions."""
    length = 4
    model, target = case(name), targets([length] * 4)
    before = logits(model, target)
    for p in range(length - 1):  # the last symbol is never an input
        changed = target.clone()
        changed[:, p] = torch.where(changed[:, p] == 5, 6, 5)
        after = logits(model, changed)
        assert_close(after[:, : p + 1], before[:, : p + 1], rtol=0, atol=1e-6)
        assert (after[:, p + 1 :] - before[:, p + 1 :]).abs().amax(dim=(1, 2)).gt(least_effect(1e-3)).all()


@every_case
def test_incremental_equals_full(name: str) -> None:
    """Word by word, with the rows of the batch reordered on the way."""
    model, target = case(name), targets([9] * 4)
    tokens, full = shifted(target), logits(model, target)
    state: dict = {}
    order = on_device(torch.arange(4))
    with torch.no_grad():
        for t in range(9):
            if t == 4:
                order = on_device(torch.tensor([2, 0, 3, 1]))
                model.decoder.reorder_incremental_state_scripting(state, order)
            step, _ = model.decoder(tokens[order, : t + 1], incremental_state=state)
            assert_close(step[:, 0], full[order, t], rtol=1e-4, atol=1e-5)


@every_case
def test_scores_of_eval_lm_are_the_models(name: str) -> None:
    """fairseq's scorer, which fairseq-eval-lm uses: the log-probability of each word."""
    model, target = case(name), targets()
    net_input = {"src_tokens": shifted(target), "src_lengths": on_device(torch.tensor(LENGTHS))}
    scored = SequenceScorer(dictionary()).generate([model], {"net_input": net_input, "target": target})
    log_probs = logits(model, target).log_softmax(-1).gather(2, target[..., None])[..., 0]
    for row, length in enumerate(LENGTHS):
        assert_close(scored[row][0]["positional_scores"], log_probs[row, :length], rtol=1e-4, atol=1e-5)


@every_case
def test_every_parameter_gets_a_gradient(name: str) -> None:
    model = case(name, share=False).train()
    loss(model, targets()).backward()
    assert_gradients(model)


@pytest.mark.own_precision
@pytest.mark.parametrize("arch", LANGUAGE_MODELS)
def test_sizes_are_those_that_are_stated(arch: str) -> None:
    with torch.device("meta"):
        model, plain = build_lm(arch), build_lm(baseline_of(arch))
    args = parse(arch)
    for decoder in (model.decoder, plain.decoder):
        assert len(decoder.layers) == args.decoder_layers
        layer = decoder.layers[0]
        assert layer.self_attn.num_heads == args.decoder_attention_heads and layer.encoder_attn is None
        assert layer.fc1.weight.shape == (args.decoder_ffn_embed_dim, args.decoder_embed_dim)
        assert layer.normalize_before


@pytest.mark.own_precision
def test_pruned_layers_keep_their_numbers() -> None:
    """--decoder-layers-to-keep leaves the upper layer: the window of the lower one goes with it."""
    model = build_lm("transformer_lm_diffwin_tiny", ["--decoder-layers-to-keep", "1"])
    assert [layer.self_attn.kind for layer in model.decoder.layers] == ["san"]
    model = build_lm("transformer_lm_diffwin_tiny", ["--decoder-layers-to-keep", "0"])
    assert [layer.self_attn.kind for layer in model.decoder.layers] == ["mw"]


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        (AdaptiveInput, ["--adaptive-input", "--adaptive-input-cutoff", "10,20", "--adaptive-softmax-cutoff", "10,20"]),
        (CharacterTokenEmbedder, ["--character-embeddings", "--character-filters", "[(1, 8)]"]),
    ],
)
def test_fairseqs_other_embeddings(kind: type[nn.Module], flags: list[str]) -> None:
    model = place(build_lm("transformer_lm_diffwin_tiny", flags, share=False).eval())
    assert type(model.decoder.embed_tokens) is kind
    assert [layer.self_attn.kind for layer in model.decoder.layers] == ["mw", "san"]
    features, _ = model(shifted(targets()), features_only=True)
    assert features.shape == (4, 13, 64) and features.isfinite().all()
