"""Training: the loss falls, it resumes exactly, two processes agree with one; pruned; by console scripts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import fairseq_localattn  # noqa: F401  (allows the classes that fairseq's checkpoints hold)
from experiments.runs import averaging
from support import cli, forked
from support.checkpoints import assert_same, assert_same_training, checkpoint
from support.cli import BIN, USER_DIR, fairseq, run, train_flags
from support.mechanisms.inputs import labelled
from support.models import task_of

PAPERS = [f"transformer_{paper}_tiny" for paper in ("csan", "diffwin", "man", "mgsa", "mma")]
UPDATES = 16
SAVED = {"save_interval_updates": 4, "keep_interval_updates": -1}


def flags(arch: str, data: Path, save_dir: Path) -> list[object]:
    learning = {"lr": 0.01, "warmup_updates": 4, "log_interval": 1}
    return train_flags(data, arch, save_dir, updates=UPDATES, task=task_of(arch), **learning, **SAVED)


@pytest.fixture(scope="module")
def trainings(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that trains an architecture once: its folder, and what the training printed."""
    done: dict[str, tuple[Path, str]] = {}

    def train(arch: str) -> tuple[Path, str]:
        if arch not in done:
            folder = tmp_path_factory.mktemp(arch)
            done[arch] = folder, fairseq("train", *flags(arch, data, folder)).stdout
        return done[arch]

    return train


@pytest.mark.parametrize("arch", PAPERS)
def test_train_and_generate(arch: str, trainings: Any, data: Path, tmp_path: Path) -> None:
    """The loss falls, and every sentence is translated."""
    folder, printed = trainings(arch)
    losses = [float(loss) for loss in re.findall(r'"loss": "([\d.]+)"', printed)]
    assert len(losses) == UPDATES and losses[-1] < losses[0] - 0.3, losses
    fairseq("generate", data, "--path", folder / "checkpoint_last.pt", "--beam", 5, "--cpu", "--results-path", tmp_path,
            "-s", "xx", "-t", "yy", "--max-len-b", 12, "--task", task_of(arch))  # fmt: skip
    lines = (tmp_path / "generate-test.txt").read_text().splitlines()
    assert sum(line.startswith("H-") for line in lines) == 12, "a sentence was left out"


@pytest.mark.slow
def test_resumed_equals_uninterrupted(trainings: Any, data: Path, tmp_path: Path) -> None:
    """Stopped in its second epoch and started again: equal weights, optimizer state and history, to the bit."""
    whole, _ = trainings("transformer_mgsa_tiny")
    shutil.copy(whole / "checkpoint_2_12.pt", tmp_path / "checkpoint_last.pt")
    resumed = fairseq("train", *flags("transformer_mgsa_tiny", data, tmp_path))
    assert "Loaded checkpoint" in resumed.stderr + resumed.stdout
    assert_same_training(whole / "checkpoint_2_16.pt", tmp_path / "checkpoint_2_16.pt")


TAGGING: dict[str, object] = {
    "task": "translation_with_phrases", "mgsa_tags": True, "tag_loss_weight": 0.5,
    "criterion": "label_smoothed_cross_entropy_with_phrase_tags",
}  # fmt: skip


@pytest.mark.slow
def test_two_processes_equal_one(data: Path, tmp_path: Path) -> None:
    """Two gloo processes against one that accumulates two batches: weights within 1e-5, without dropout."""
    settings: dict[str, object] = {"dropout": 0, "lr": 0.0005, **TAGGING}
    fairseq("train", *train_flags(data, "transformer_mgsa_tiny", tmp_path / "one", 4, update_freq=2, **settings))
    settings |= {"num_workers": 1, "user_dir": USER_DIR}
    words = train_flags(data, "transformer_mgsa_tiny", tmp_path / "two", 4, **settings)
    with forked.two_processes(*words, cwd=tmp_path) as ranks:
        done = [rank.wait() for rank in ranks]
    assert [each.returncode for each in done] == [0, 0], done[0].stderr[-3000:]
    one, two = (checkpoint(tmp_path / n / "checkpoint_last.pt") for n in ("one", "two"))
    assert two["optimizer_history"][-1]["num_updates"] == 4
    tags = re.findall(r'"train_tag_loss": "([\d.]+)"', done[0].stdout + done[0].stderr)
    assert tags and float(tags[-1]) > 0, "the loss of the tags is not summed over the processes"
    for key, weight in one["model"].items():
        torch.testing.assert_close(two["model"][key], weight, rtol=0, atol=1e-5, msg=labelled(key))


def test_a_stock_checkpoint_is_taken_over(data: Path, tmp_path: Path) -> None:
    """A checkpoint of fairseq's own Transformer, trained without the plugin's models, continues as transformer_csan."""
    fairseq("train", *train_flags(data, "transformer_localattn_tiny", tmp_path / "stock", updates=2))
    stock = tmp_path / "stock" / "checkpoint_last.pt"
    settings = {"finetune_from_model": stock, "lr": 0}
    taken = fairseq("train", *train_flags(data, "transformer_csan_tiny", tmp_path / "csan", updates=1, **settings))
    assert f"loading pretrained model from {stock}" in taken.stdout
    before, after = checkpoint(stock), checkpoint(tmp_path / "csan" / "checkpoint_last.pt")
    assert_same(before["model"], after["model"], "model")  # the learning rate was 0


@pytest.mark.slow
def test_validate(data: Path, tmp_path: Path) -> None:
    """The other commands are run so by tests/docs/test_commands.py."""
    fairseq("train", *train_flags(data, "transformer_csan_tiny", tmp_path, updates=1))
    words = [data, "--task", "translation", "--path", tmp_path / "checkpoint_last.pt", "--cpu", "--max-tokens", 500]
    validated = forked.run("fairseq-validate", *words, "--user-dir", USER_DIR, cwd=tmp_path)
    found = re.search(r"valid on 'valid' subset \| loss ([\d.]+)", validated.stdout + validated.stderr)
    assert found and 0 < float(found[1]) < 20


@pytest.mark.slow
def test_a_mistake_ends_in_one_line(data: Path, tmp_path: Path) -> None:
    words = train_flags(data, "transformer_csan_tiny", tmp_path / "run", updates=1)
    failed = run(BIN / "fairseq-train", *words, "--csan-window", 4, "--user-dir", USER_DIR, check=False)
    said = [line for line in failed.stderr.splitlines() if not line.startswith(("INFO:", "DEBUG:", "WARNING:"))]
    assert failed.returncode == 1 and len(said) == 1 and "window must be odd" in said[0], failed.stderr
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("*.pt"))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_a_traceback_is_shown_where_it_is_asked_for(level: str, data: Path, tmp_path: Path) -> None:
    """fairseq-generate sets the root logger to DEBUG by its imports."""
    words = [data, "--path", "none.pt", "-s", "xx", "-t", "yy", "--cpu", "--results-path", "/dev/null/x"]
    done = forked.run("fairseq-generate", *words, "--user-dir", USER_DIR, cwd=tmp_path, LOGLEVEL=level)
    assert done.returncode == 1 and ("Traceback" in done.stderr) == (level == "DEBUG")
    assert done.stderr.splitlines()[-1].startswith("fairseq_localattn: Not a directory: /dev/null/x")


TRANSLATION = {"encoder_layers": 3, "decoder_layers": 3}
BOTH = {"encoder_layers_to_keep": "0,2", "decoder_layers_to_keep": "1"}
PRUNED = [
    ("transformer_csan_tiny", {**TRANSLATION, **BOTH}),
    ("transformer_lm_diffwin_tiny", {"decoder_layers_to_keep": "0,2"}),
    ("transformer_diffwin_classifier_tiny", {"encoder_layers": 3, "encoder_layers_to_keep": "0,2"}),
]


@pytest.mark.parametrize(("arch", "options"), PRUNED)
def test_trained_pruned(arch: str, options: dict[str, object], data: Path, tmp_path: Path) -> None:
    """Begun, resumed and averaged, it is used as any other."""
    words: list[object] = ["-s", "xx", "-t", "yy", "--max-len-b", 8, "--cpu"]
    command, flags = "generate", train_flags
    if "_lm_" in arch:
        data, command, flags = cli.make_text(data, tmp_path / "bin"), "eval-lm", cli.lm_flags
        words = ["--sample-break-mode", "eos", "--max-tokens", 500, "--cpu"]
    elif "classifier" in arch:
        data, command, flags = cli.make_classes(data, tmp_path), "validate", cli.class_flags
        task = "--task sentence_prediction --criterion sentence_prediction --num-classes 2"
        words = [*task.split(), "--batch-size", 40, "--cpu"]
    files = [tmp_path / "run" / f"checkpoint_{name}.pt" for name in ("last", "best")]
    for updates in (2, 3):
        fairseq("train", *flags(data, arch, tmp_path / "run", updates, save_interval_updates=1, **options))
        fairseq(command, data, *words, "--path", files[0])
    cli.call(averaging.main, *files, "--output", tmp_path / "averaged.pt")
    fairseq(command, data, *words, "--path", tmp_path / "averaged.pt")


def test_a_whole_model_is_read_pruned(data: Path, tmp_path: Path) -> None:
    """The stack without the option stays whole."""
    fairseq("train", *train_flags(data, "transformer_mma_tiny", tmp_path, 1, **TRANSLATION))
    words = [data, "-s", "xx", "-t", "yy", "--max-len-b", 8, "--cpu", "--path", tmp_path / "checkpoint_last.pt"]
    for overrides in ({"encoder_layers_to_keep": "0,2"}, BOTH):
        fairseq("generate", *words, "--model-overrides", overrides)
