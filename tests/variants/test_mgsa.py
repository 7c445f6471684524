"""transformer_mgsa: sizes against the paper's tables, options, errors."""

from __future__ import annotations

import copy
import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_localattn.errors import UsageError
from fairseq_localattn.mechanisms.phrasal import MultiGranularityAttention
from fairseq_localattn.models.architectures import baseline_of
from support.mechanisms import phrase_references as reference
from support.models import batch, build, dictionary, loss, parse, tags, with_phrases
from support.paths import ROOT

TINY, NGRAM = "transformer_mgsa_tiny", "transformer_mgsa_ngram_tiny"
PAGE = (ROOT / "docs" / "papers" / "mgsa.md").read_text("utf-8")
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.endswith("M |")]
assert len(ROWS) == 10


def parameters(arch: str, *flags: str) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in build(arch, flags).parameters())


@pytest.mark.parametrize(("row", "flags", "added", "ours", "paper"), ROWS)
def test_parameters_are_those_of_the_page_and_the_paper(
    row: str, flags: str, added: str, ours: str, paper: str
) -> None:
    """The plain model has 88.0M in the paper, and the big one 264.1M (En-De) and 234.8M (Zh-En)."""
    (size,) = re.findall(r"`(_\w+)`", flags) or [""]
    words = " ".join(re.findall(r"`(--.+?)`", flags)).split()
    arch, big = f"transformer_mgsa{size}", "big" in size
    more = parameters(arch, *words) - parameters(baseline_of(arch))
    if "--mgsa-tags" in words:
        more -= len(tags()) * (1025 if big else 513)
    assert added.partition(" and ")[0] == f"{more:,}"
    assert ours == "; ".join(f"{plain + more / 1e6:.1f}M" for plain in ((264.1, 234.8) if big else (88.0,)))
    assert paper == ("96.1M" if row == "Table 1, LSTM" else ours)  # an LSTM of no natural width


def test_tags_add_one_classifier() -> None:
    plain, tagged = build(TINY), build(TINY, ["--mgsa-tags"])
    added = set(tagged.state_dict()) - set(plain.state_dict())
    assert added == {"encoder.tag_proj.weight", "encoder.tag_proj.bias"}
    assert tagged.encoder.tag_proj.weight.shape == (len(tags()), 64)
    for key, weight in plain.state_dict().items():  # initialised last, so no other weight changes
        assert torch.equal(weight, tagged.state_dict()[key]), key


@pytest.mark.parametrize(
    ("arch", "flags", "heads"),
    [
        (TINY, [], [1, 2, 3]),
        (TINY, ["--mgsa-heads", "word:2,3:1,1:1"], [1, 3]),
        (NGRAM, [], [2, 3, 4]),
        (NGRAM, ["--mgsa-heads", "word,5"], [5, 5]),
    ],
)
def test_each_head_has_its_granularity(arch: str, flags: list[str], heads: list[int]) -> None:
    """Heads of phrases are in layer 1 only, and each gets the partition of its granularity."""
    model = build(arch, flags).eval()
    first, second = (layer.self_attn for layer in model.encoder.layers)
    assert isinstance(first, MultiGranularityAttention) and not isinstance(second, MultiGranularityAttention)
    seen: list[list[int]] = []

    def look(module: Any, args: Any, output: Any) -> None:
        lengths = module.partition.of(module.granularities).lengths[0]
        seen.extend([length for length in head.tolist() if length] for head in lengths)

    first.register_forward_hook(look)
    sample = with_phrases(model, batch([9], [4])["net_input"])
    with torch.no_grad():
        model(**sample)
    for head, found in zip(heads, seen, strict=True):
        if arch == NGRAM:
            assert found == [len(phrase) for phrase in reference.ngrams(9, head)]
        else:
            assert found == [length for length in sample["src_phrases"][0, head - 1].tolist() if length]


def test_checkpointing_changes_no_gradient() -> None:
    """With tags as well, whose phrases are a second output of the layer."""
    sample = batch([9, 4, 13, 1], [7, 11, 3, 5])
    models = [build(TINY, ["--mgsa-tags", *more]) for more in ([], ["--checkpoint-activations"])]
    for model in models:
        loss(model.eval(), sample).backward()
    gradients = [{name: parameter.grad for name, parameter in model.named_parameters()} for model in models]
    torch.testing.assert_close(*gradients)


def test_a_copied_encoder_has_its_own_hooks() -> None:
    """A copy of the model gives the same output by itself."""
    model = build(TINY, ["--mgsa-tags"]).eval()
    other = copy.deepcopy(model)
    hooks = [hook for layer in other.encoder.layers for hook in layer._forward_pre_hooks.values()]
    assert hooks and all(hook.__self__ is other.encoder for hook in hooks)
    sample = with_phrases(model, batch([5], [4])["net_input"])
    with torch.no_grad():
        assert torch.equal(other(**sample)[0], model(**sample)[0])


@pytest.mark.parametrize("arch", [TINY, NGRAM])
def test_only_the_ngram_model_runs_without_phrases(arch: str) -> None:
    model, sample = build(arch).eval(), batch([5], [4])["net_input"]
    if arch == NGRAM:
        assert model(**sample)[0].isfinite().all()
    else:
        with pytest.raises(UsageError, match="needs the phrases of each sentence, and got none"):
            model(**sample)


def test_trees_that_the_task_does_not_have_are_refused() -> None:
    with pytest.raises(UsageError, match="--mgsa-heads asks for level 5 of the trees, and the data have 3"):
        build(TINY, ["--mgsa-heads", "word,5"])
    task = SimpleNamespace(source_dictionary=dictionary(), target_dictionary=dictionary())
    with pytest.raises(UsageError, match="takes phrases from trees"):
        ARCH_MODEL_REGISTRY[TINY].build_model(parse(TINY), task)


def test_phrases_of_other_words_are_refused() -> None:
    """On the CPU, where the check costs nothing."""
    model = build(TINY).eval()
    sample = with_phrases(model, batch([6], [4])["net_input"])
    sample["src_phrases"][:, 0, 0] += 1
    with pytest.raises(UsageError, match="the phrases do not cover the words of their sentence"):
        model(**sample)


def test_the_tag_classifier_is_pruned_with_its_layer() -> None:
    """A checkpoint with tags is loaded without its layer with phrases (fairseq's --encoder-layers-to-keep)."""
    model = build(TINY, ["--mgsa-tags"])
    pruned = build(TINY, ["--mgsa-tags"], encoder_layers_to_keep="1", decoder_layers_to_keep="0,1")
    assert pruned.encoder.tag_proj is None and not pruned.encoder.needs_phrases
    state = model.state_dict()
    args = parse(TINY, ["--mgsa-tags", "--share-all-embeddings"])
    vars(args).update(encoder_layers_to_keep="1", decoder_layers_to_keep="0,1")
    pruned.load_state_dict(state, strict=True, model_cfg=args)
    assert pruned(**batch([5], [4])["net_input"])[0].isfinite().all()
