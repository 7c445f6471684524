"""A training goes on from the checkpoint of its own model, and another model of equal shapes is refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import torch

from experiments.runs import averaging
from support.cli import Done, call, fairseq, make_data, train_flags

PLAIN, MMA = "transformer_localattn_tiny", "transformer_mma_tiny"
RESET = dict.fromkeys(("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader"), True)

pytestmark = pytest.mark.xdist_group("same model")  # two trainings serve all tests


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("reverse"), train=40)


@pytest.fixture(scope="module")
def begun(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folders = {arch: tmp_path_factory.mktemp(arch) for arch in (PLAIN, MMA)}
    for arch, folder in folders.items():
        fairseq("train", *train_flags(data, arch, folder, 1))
    return {arch: folder / "checkpoint_last.pt" for arch, folder in folders.items()}


def go_on(data: Path, checkpoint: Path, folder: Path, arch: str, **options: object) -> Done:
    shutil.copy(checkpoint, folder / "checkpoint_last.pt")
    return fairseq("train", *train_flags(data, arch, folder, 2, **options), check=False)


@pytest.mark.parametrize(
    ("stored", "asked", "options", "said"),
    [
        (PLAIN, MMA, {}, r"\(encoder: san\), and .* of --arch transformer_mma_tiny \(encoder: all: 1\*global"),
        (MMA, "transformer", {"encoder_layers": 2}, r"_mma_tiny .*, and this training is of --arch transformer \("),
        (MMA, MMA, {"mma_window": 2}, r"1\*local \+ .*, and .*1\*local\(window=2\)"),
        (MMA, MMA, {"mma_no_encoder_positions": True}, r"no_encoder_positions: not set\), and .*positions: True\)"),
        (PLAIN, PLAIN, {"encoder_attention_heads": 2}, r"encoder_attention_heads: 4\), and .*heads: 2\)"),
        (PLAIN, "transformer_align", {"encoder_layers": 2}, r"TransformerModel\), and .*TransformerAlignModel\)"),
    ],
)
def test_another_model(
    stored: str, asked: str, options: dict[str, object], said: str, data: Path, begun: dict[str, Path], tmp_path: Path
) -> None:
    """One line says both, and how to begin with these weights on purpose; the folder stays as it was."""
    done = go_on(data, begun[stored], tmp_path, asked, **options)
    last = tmp_path / "checkpoint_last.pt"
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert re.search(said, done.stderr), done.stderr
    assert f"{last} is of --arch {stored}" in done.stderr and f"--finetune-from-model {last}" in done.stderr
    assert last.read_bytes() == begun[stored].read_bytes()


@pytest.mark.parametrize(
    ("stored", "asked", "options"),
    [
        (MMA, MMA, {"dropout": 0.3, "lr": 0.01, "localattn_attention": "sdpa", "label_smoothing": 0}),
        (MMA, MMA, {"mma_window": 2, **RESET}),  # weights alone, on purpose
        (PLAIN, "transformer_hybrid_tiny", {}),  # the same model by another name
    ],
)
def test_the_same_model(
    stored: str, asked: str, options: dict[str, object], data: Path, begun: dict[str, Path], tmp_path: Path
) -> None:
    done = go_on(data, begun[stored], tmp_path, asked, **options)
    assert done.returncode == 0, done.stderr


def test_an_average_and_an_old_checkpoint(data: Path, begun: dict[str, Path], tmp_path: Path) -> None:
    """The mean of checkpoints goes on, and a checkpoint without some options has those that are asked for."""
    call(averaging.main, begun[MMA], "--output", tmp_path / "averaged.pt")
    state = torch.load(begun[MMA], weights_only=True)
    for name in ("mma_heads", "mma_window", "no_scale_embedding"):
        delattr(state["cfg"]["model"], name)
    torch.save(state, tmp_path / "old.pt")
    for name in ("averaged.pt", "old.pt"):
        folder = tmp_path / name.removesuffix(".pt")
        folder.mkdir()
        done = go_on(data, tmp_path / name, folder, MMA)
        assert done.returncode == 0, done.stderr
