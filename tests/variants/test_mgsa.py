"""transformer_mgsa: sizes against the paper's tables, options, errors."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_localattn.errors import UsageError
from fairseq_localattn.mechanisms.phrasal import MultiGranularityAttention
from support.mechanisms import phrase_references as reference
from support.models import batch, build, dictionary, loss, parse, tags, with_phrases
from support.paths import ROOT

TINY, NGRAM = "transformer_mgsa_tiny", "transformer_mgsa_ngram_tiny"
BASE, BIG = "transformer_mgsa", "transformer_mgsa_wmt_en_de_big"
GRAMS = "transformer_mgsa_ngram"

# The paper's systems, their flags here, and its numbers of parameters in millions; the plain base model has 88.0 there.
TABLES = {
    "Table 1, max-pooling": (GRAMS, ["--mgsa-composition", "max", "--mgsa-encoder-layers", "all"], 88.0, 0),
    "Table 1, sans": (GRAMS, ["--mgsa-encoder-layers", "all"], 90.4, 2_359_296),
    "Table 2, layers 1-3": (GRAMS, ["--mgsa-encoder-layers", "1-3"], 89.2, 1_179_648),
    "Table 3, n-gram": (GRAMS, [], 88.4, 393_216),
    "Table 3, syntactic": (BASE, ["--mgsa-interaction", "none"], 88.4, 393_216),
    "Table 3, + LSTM": (BASE, ["--mgsa-interaction", "lstm"], 89.5, 1_476_096),
    "Table 3, + ON-LSTM": (BASE, [], 89.9, 1_919_232),
    "Table 3, + tags": (BASE, ["--mgsa-interaction", "none", "--mgsa-tags"], 88.4, 393_216 + 9 * 513),  # nine tags here
}


def parameters(arch: str, flags: list[str] | tuple[str, ...] = ()) -> int:
    with torch.device("meta"):
        return sum(p.numel() for p in build(arch, flags).parameters())


@pytest.mark.parametrize("name", TABLES)
def test_added_parameters_are_the_papers(name: str) -> None:
    """88.0M plus our additional parameters is the paper's number, up to the rounding of 88.0M."""
    arch, flags, paper, added = TABLES[name]
    assert parameters(arch, flags) - parameters("transformer_wmt_en_de") == added
    assert abs(88.0 + added / 1e6 - paper) < 0.05


def test_added_parameters_of_other_rows() -> None:
    """Table 4: 264.1M → 271.5M (En-De) and 234.8M → 242.2M (Zh-En). An LSTM of no natural width has Table 1's 96.1M."""
    added = parameters(BIG) - parameters("transformer_vaswani_wmt_en_de_big")
    assert added == 7_377_408
    assert round(264.1 + added / 1e6, 1) == 271.5 and round(234.8 + added / 1e6, 1) == 242.2
    flags = ["--mgsa-composition", "lstm", "--mgsa-encoder-layers", "all"]
    assert parameters(GRAMS, flags) - parameters("transformer_wmt_en_de") == 6_497_280


def test_the_papers_page_has_these_numbers() -> None:
    page = (ROOT / "docs" / "papers" / "mgsa.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| Table ")]
    for name, (_, flags, paper, added) in TABLES.items():
        if "tags" in name:
            continue
        wanted = [
            f" {added:,} ",
            f" {paper}M |",
            *(f"{flag} {value}" for flag, value in zip(flags[::2], flags[1::2], strict=True)),
        ]
        assert any(all(part.strip() in row for part in wanted) for row in rows), wanted
    assert any("7,377,408" in row and row.endswith("| 271.5M; 242.2M |") for row in rows)
    assert any("6,497,280" in row and row.endswith("| 94.5M | 96.1M |") for row in rows)


def test_tags_add_one_classifier() -> None:
    plain, tagged = build(TINY), build(TINY, ["--mgsa-tags"])
    added = set(tagged.state_dict()) - set(plain.state_dict())
    assert added == {"encoder.tag_proj.weight", "encoder.tag_proj.bias"}
    assert tagged.encoder.tag_proj.weight.shape == (len(tags()), 64)
    for key, weight in plain.state_dict().items():  # initialised last, so no other weight changes
        assert torch.equal(weight, tagged.state_dict()[key]), key


# ---------------------------------------------------------------------------------------------- the model


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


# ---------------------------------------------------------------------------------------------- mistakes


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
