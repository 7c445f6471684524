"""fairseq-hydra-train: the example's file, resuming, generation and from_pretrained, for each task; what is printed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from fairseq.dataclass.configs import FairseqConfig
from fairseq_cli.hydra_train import _hydra_main
from omegaconf import OmegaConf

from fairseq_localattn.models.transformer import LocalTransformerModel
from support.cli import REPOSITORY, USER_DIR, call, fairseq, make_classes, make_text, tree_of
from support.forked import run

EXAMPLE = REPOSITORY / "examples" / "hydra" / "mma.yaml"
# Values of a tiny training on a CPU instead of the example's.
TINY = ["common.cpu=true", "dataset.num_workers=0", "dataset.max_tokens=300", "task.source_lang=xx",
        "task.target_lang=yy", "model._name=transformer_mma_tiny"]  # fmt: skip


def hydra_train(data: Path, folder: Path, *overrides: str) -> Any:
    """Run fairseq-hydra-train with the example's file, as its first lines say, in a new process."""
    places = [f"task.data={data}", f"common.user_dir={USER_DIR}", f"checkpoint.save_dir={folder}"]
    words = ["--config-dir", EXAMPLE.parent, "--config-name", EXAMPLE.stem, *places, *TINY, *overrides]
    return run("fairseq-hydra-train", *words, cwd=folder)


def test_the_example_has_the_recipes_values() -> None:
    recipe = yaml.safe_load((REPOSITORY / "configs" / "mma" / "base" / "iwslt14.yaml").read_text("utf-8"))["train"]
    example = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    names = {part: values.pop("_name") for part, values in example.items() if "_name" in values}
    assert names == {
        **{part: recipe[part] for part in ("task", "criterion", "optimizer", "lr_scheduler")},
        "model": "transformer_mma_iwslt_de_en",
    }
    found = {name: value for part in example.values() for name, value in part.items()}
    assert [float(beta) for beta in found.pop("adam_betas").strip("()").split(",")] == recipe.pop("adam_betas")
    rest = {name: value for name, value in recipe.items() if name not in names}
    assert {name: found.get(name) for name in rest} == rest


@pytest.mark.slow
def test_train_resume_and_use(data: Path, tmp_path: Path) -> None:
    """Options of the command line reach the model, and are kept through resuming, generation and from_pretrained."""
    given = ['model.mma_heads="global:1,local:3"', "model.mma_window=2", "+model.encoder_layers=3"]
    first = hydra_train(data, tmp_path, *given, "optimization.max_update=2")
    assert first.returncode == 0, first.stderr[-3000:]
    resumed = hydra_train(data, tmp_path, *given, "optimization.max_update=4")
    last = tmp_path / "checkpoint_last.pt"
    assert resumed.returncode == 0 and f"Loaded checkpoint {last} (epoch 1 @ 2 updates)" in resumed.stdout
    assert "head_kinds=global,local,local,local, window=2" in resumed.stdout
    state = torch.load(last, weights_only=True)
    assert state["optimizer_history"][-1]["num_updates"] == 4
    model = state["cfg"]["model"]
    assert (model["encoder_layers"], model["decoder_layers"], model["encoder_embed_dim"]) == (3, 2, 64)
    done = fairseq("generate", data, "--path", last, "--cpu", "-s", "xx", "-t", "yy", "--max-len-b", 8)
    assert done.stdout.count("\nH-") == 12
    for dictionary in data.glob("dict.*.txt"):
        shutil.copy(dictionary, tmp_path)
    hub = LocalTransformerModel.from_pretrained(tmp_path, last.name)
    attention = hub.models[0].encoder.layers[2].self_attn
    assert (attention.head_kinds, attention.window) == (("global", "local", "local", "local"), 2)
    assert isinstance(hub.translate("a b c", max_len_b=8), str)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "line"),
    [
        (
            "+model.mma_windw=2",
            "transformer_mma_tiny: the model has no option mma_windw (did you mean mma_window?); its",
        ),
        ("task.data=null", "task.data is missing: give task.data=FOLDER, which fairseq-preprocess wrote"),
        ("optimizer._name=adan", "there is no optimizer adan; did you mean adam?"),
    ],
)
def test_a_mistake_ends_in_one_line(override: str, line: str, data: Path, tmp_path: Path) -> None:
    """Hydra adds a line of its own, with the overrides, and one with a hint; there is no traceback."""
    done = hydra_train(data, tmp_path, override)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"\n{line}" in done.stderr


def train_in_process(folder: Path, **parts: Any) -> Path:
    root = OmegaConf.structured(FairseqConfig)
    OmegaConf.set_struct(root, False)
    chosen = {
        "common": {"cpu": True, "user_dir": str(USER_DIR)},
        "optimizer": {"_name": "adam"},
        "lr_scheduler": {"_name": "fixed"},
        "dataset": {"num_workers": 0, "max_tokens": 400},
        "optimization": {"max_update": 2, "lr": [0.001]},
        "checkpoint": {"save_dir": str(folder), "no_epoch_checkpoints": True},
        **parts,
    }
    for part, values in chosen.items():
        defaults = {} if OmegaConf.is_missing(root, part) else root[part]
        root[part] = OmegaConf.merge(defaults or {}, values)
    done = call(lambda: _hydra_main(root))
    assert "num_updates 2" in done.stdout
    return folder / "checkpoint_last.pt"


def test_trees(data: Path, tmp_path: Path) -> None:
    """The task and the criterion are this package's, and are completed after the plugin is loaded."""
    last = train_in_process(
        tmp_path,
        task={"_name": "translation_with_phrases", "data": str(data), "source_lang": "xx", "target_lang": "yy"},
        model={"_name": "transformer_mgsa_tiny", "mgsa_tags": True},
        criterion={"_name": "label_smoothed_cross_entropy_with_phrase_tags", "tag_loss_weight": 0.1},
    )
    flags = ("--cpu", "-s", "xx", "-t", "yy", "--max-len-b", 8, "--task", "translation_with_phrases")
    assert fairseq("generate", data, "--path", last, *flags).stdout.count("\nH-") == 12
    hub = LocalTransformerModel.from_pretrained(tmp_path, last.name, data)
    assert isinstance(hub.translate("a b c", trees=tree_of(["a", "b", "c"]), max_len_b=8), str)


def test_language_model(data: Path, tmp_path: Path) -> None:
    binarised = make_text(data, tmp_path / "bin")
    last = train_in_process(
        tmp_path,
        task={"_name": "language_modeling", "data": str(binarised), "sample_break_mode": "eos"},
        model={"_name": "transformer_lm_diffwin_tiny"},
        criterion={"_name": "cross_entropy"},
    )
    assert torch.load(last, weights_only=True)["cfg"]["model"]["decoder_layers"] == 2
    done = fairseq("eval-lm", binarised, "--path", last, "--cpu", "--sample-break-mode", "eos", "--max-tokens", 500)
    words = sum(len(line.split()) + 1 for line in (data.parent / "test.xx").read_text().splitlines())
    assert f"Evaluated {words} tokens" in done.stdout


def test_classifier(data: Path, tmp_path: Path) -> None:
    classes = make_classes(data, tmp_path)
    last = train_in_process(
        tmp_path,
        task={"_name": "sentence_prediction", "data": str(classes), "num_classes": 2},
        model={"_name": "transformer_diffwin_classifier_tiny"},
        criterion={"_name": "sentence_prediction"},
    )
    hub = LocalTransformerModel.from_pretrained(tmp_path, last.name, classes)
    assert {label for label, _ in hub.classify(["a b", "g h a"])} <= {"low", "high"}
