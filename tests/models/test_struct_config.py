"""Configurations of fairseq-hydra-train: each architecture is built as from the command line; mistakes are named."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from fairseq import models
from fairseq.dataclass.initialize import add_defaults
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, FairseqLanguageModel, build_model
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf

from fairseq_localattn.errors import UsageError
from support.models import LEVELS, dictionary, parse, tags, task_of
from support.paths import ROOT

NAMED = sorted(name for name, function in ARCH_CONFIG_REGISTRY.items() if "fairseq_localattn" in function.__module__)
LENGTHS = {"max_source_positions": 77, "max_target_positions": 66}
# Of each task: options in the configuration, which are not the defaults, and flags.
TASKS: dict[str, tuple[dict[str, int], list[str]]] = {
    "translation": (LENGTHS, ["--max-source-positions", "77", "--max-target-positions", "66"]),
    "language_modeling": ({"tokens_per_sample": 64}, ["--tokens-per-sample", "64"]),
    "sentence_prediction": ({"max_positions": 99}, ["--max-positions", "99"]),
}
TASKS["translation_with_phrases"] = TASKS["translation"]


def task_name(arch: str) -> str:
    """Return the task of an architecture, plain ones included."""
    if issubclass(ARCH_MODEL_REGISTRY[arch], FairseqLanguageModel):
        return "language_modeling"
    return "sentence_prediction" if "classifier" in arch else task_of(arch)


def build(arch: str, config: Any) -> Any:
    """Return a model without weights from a configuration or from a namespace."""
    words = dictionary()
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words, tag_dictionary=tags())
    task.phrase_levels, task.max_positions = LEVELS, lambda: 99
    with torch.device("meta"):
        return build_model(config, task)


def configuration(arch: str, **options: Any) -> Any:
    """Return the model's part of a configuration, as fairseq-hydra-train hands it on."""
    task = task_name(arch)
    criterion = {"_name": "sentence_prediction"} if task == "sentence_prediction" else None
    groups: dict[str, Any] = {"common": {"tpu": False, "seed": 1}, "dataset": {"dataset_impl": None}}
    groups |= {"criterion": criterion, "task": {"_name": task, "data": "data", **TASKS[task][0]}}
    root = OmegaConf.create({**groups, "model": {"_name": arch, **options}})
    add_defaults(root)
    return root.model


def described(model: Any) -> tuple[Any, ...]:
    """Return what a model is made of: modules, shapes of its parameters, longest sentences."""
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    return str(model), shapes, model.max_positions()


# The smallest and one other size of each model; sizes differ in values alone.
SIZES = {ARCH_MODEL_REGISTRY[arch]: arch for arch in NAMED if "tiny" not in arch}.values()
BUILT = [*(arch for arch in NAMED if "tiny" in arch), *(pytest.param(arch, marks=pytest.mark.slow) for arch in SIZES)]


@pytest.mark.parametrize("arch", BUILT)
def test_built_as_from_the_command_line(arch: str) -> None:
    """Again from the completed configuration too, which a checkpoint holds, written and read."""
    wanted = described(build(arch, parse(arch, TASKS[task_name(arch)][1])))
    config = configuration(arch)
    assert described(build(arch, config)) == wanted
    stored = OmegaConf.create(OmegaConf.to_container(config, resolve=True), flags={"allow_objects": True})
    assert described(build(arch, stored)) == wanted


MMA = "transformer_mma_iwslt_de_en"
GIVEN = [
    (MMA, {"mma_heads": "global:1,local:3", "encoder_layers": 3},
     ["--mma-heads=global:1,local:3", "--encoder-layers=3"]),
    (MMA, {"mma_heads": ["global", "local"], "dropout": 0.4}, ["--mma-heads=global,local", "--dropout=0.4"]),
    (MMA, {"mma_encoder_layers": 2}, ["--mma-encoder-layers=2"]),
    (MMA, {"encoder": {"embed_dim": 64, "layers": 2}, "decoder": {"layers": 1}},
     ["--encoder-embed-dim=64", "--encoder-layers=2", "--decoder-layers=1"]),
    (MMA, {"share_all_embeddings": True, "encoder_learned_pos": False}, ["--share-all-embeddings"]),
    (MMA, {"max_source_positions": 50, "encoder_learned_pos": True},
     ["--max-source-positions=50", "--encoder-learned-pos"]),
    ("transformer_localattn_tiny", {"decoder": {"layers": 1}}, ["--decoder-layers=1"]),
    ("transformer_mgsa_ngram_tiny", {"mgsa_heads": ""}, ["--mgsa-heads="]),
    ("transformer_man_tiny", {"man_static_width": None}, []),
    ("transformer_man_tiny", {"encoder": {"normalize_before": False}, "decoder_normalize_before": False},
     ["--man-post-norm"]),
    ("transformer_lm_localattn_tiny", {"decoder_layers": 1}, ["--decoder-layers=1"]),
    ("transformer_lm_diffwin_tiny", {"diffwin_decoder": "aw"}, ["--diffwin-decoder=aw"]),
    ("transformer_diffwin_classifier_tiny", {"encoder": {"layers": 1}}, ["--encoder-layers=1"]),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "options", "flags"), GIVEN)
def test_given_values_win_over_the_named_size(arch: str, options: dict[str, Any], flags: list[str]) -> None:
    before = TASKS[task_name(arch)][1]
    assert described(build(arch, configuration(arch, **options))) == described(build(arch, parse(arch, before + flags)))


def test_every_field_of_fairseqs_own_configuration_is_accepted() -> None:
    """The whole of TransformerConfig, also what has no flag, as fairseq's own configurations write it."""
    root = OmegaConf.create({"model": OmegaConf.structured(TransformerConfig), "task": LENGTHS})
    resolved: Any = OmegaConf.to_container(root, resolve=True)
    options = resolved["model"]
    del options["_name"]
    options["decoder"].update(layers=1, embed_dim=64)
    assert {"input_dim", "xformers_att_config"} <= set(options["decoder"])
    model = build("transformer_mma", configuration("transformer_mma", **options))
    assert len(model.encoder.layers) == 6 and [layer.embed_dim for layer in model.decoder.layers] == [64]


MISTAKES = [
    ({"encoder": {"layrs": 2}}, "no option encoder_layrs (did you mean encoder_layers?)"),
    (
        {"xyzzy": 2, "mma_windw": 2},
        "transformer_mma_tiny: the model has no option xyzzy, mma_windw (did you mean mma_window?); its options are",
    ),
    ({"decoder_input_dim": "wide"}, "argument --decoder-input-dim: invalid int value: 'wide'"),
    ({"activation_fn": "rleu"}, "argument --activation-fn: invalid choice: 'rleu'"),
    ({"share_all_embeddings": "yes"}, "argument --share-all-embeddings: give true or false, not 'yes'"),
    ({"mma_heads": "global:1,local:2"}, "3 heads, the model has 4"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_mistakes_are_named_in_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as error:
        build("transformer_mma_tiny", configuration("transformer_mma_tiny", **options))
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_misspelt_architecture_is_named() -> None:
    with pytest.raises(UsageError, match="no architecture transformer_mmma_tiny; did you mean transformer_mma_tiny"):
        models.build_model(OmegaConf.create({"_name": "transformer_mmma_tiny"}), None)


def test_the_page_about_fairseq_shows_a_valid_configuration() -> None:
    page = (ROOT / "docs" / "use-with-fairseq.md").read_text("utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    options = yaml.safe_load(block)["model"]
    model = build(MMA, configuration(options.pop("_name"), **options))
    assert len(model.encoder.layers) == 3 and len(model.decoder.layers) == 6
    assert model.encoder.layers[0].self_attn.head_kinds == ("global", "local", "local", "local")


def test_a_checkpoint_may_hold_options_that_are_gone() -> None:
    """Options of a completed configuration, which an earlier version checked, are not refused."""
    config = configuration("transformer_mma_tiny")
    wanted = described(build("transformer_mma_tiny", config))
    config.mma_of_an_earlier_version = 1
    assert described(build("transformer_mma_tiny", config)) == wanted


def test_a_checkpoints_options_without_effect_are_not_refused() -> None:
    """An earlier version trained with them, and stored no name of a language model."""
    arch = "transformer_lm_relpos_tiny"
    config = configuration(arch)
    build(arch, config)
    assert config["_name"] == arch
    for name in (arch, None):
        config.update(_name=name, relpos_decoder_layers="none", relpos_distance=18)
        build(arch, config)


def test_a_language_models_checkpoint_of_an_earlier_version() -> None:
    """Plain language models were configured by fairseq's dataclass: all of its fields, and no architecture's."""
    old = {"decoder_layers": 2, "decoder_embed_dim": 64, "decoder_ffn_embed_dim": 128, "decoder_attention_heads": 4,
           "decoder_normalize_before": True, "decoder_input_dim": 64, "decoder_output_dim": 64, "tpu": False,
           "tokens_per_sample": 64, "max_target_positions": None, "add_bos_token": False, "scale_fc": False,
           "adaptive_softmax_cutoff": None, "character_filters": "[(1, 64), (2, 128)]"}  # fmt: skip
    arch = "transformer_lm_localattn_tiny"
    stored = OmegaConf.create({"_name": arch, **old}, flags={"allow_objects": True})
    assert described(build(arch, stored)) == described(build(arch, parse(arch, TASKS["language_modeling"][1])))
