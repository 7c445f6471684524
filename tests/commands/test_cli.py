"""The commands that a user types: train, generate, interactive, validate, score; resume; two processes; mistakes."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from support.cli import REPOSITORY, USER_DIR, environment, fairseq, make_data, run, train_flags
from support.models import TINY, task_of


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("reverse"))


def checkpoint(path: Path) -> dict[str, Any]:
    import fairseq_localattn  # noqa: F401  (allows the classes that fairseq's checkpoints hold)

    return torch.load(path, weights_only=True)


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Equal to the bit, through dicts and lists."""
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for n, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{n}]")
    else:
        assert a == b, where


@pytest.mark.parametrize("arch", TINY)
def test_train_generate_score(arch: str, data: Path, tmp_path: Path) -> None:
    """The whole way for each variant: the loss falls, generation is complete, scripts/score.py scores it."""
    task = task_of(arch)
    trained = fairseq("train", *train_flags(data, arch, tmp_path / "run", updates=30, task=task))
    losses = [float(loss) for loss in re.findall(r'"loss": "([\d.]+)"', trained.stdout + trained.stderr)]
    assert losses[-1] < losses[0] - 0.3, losses
    last = tmp_path / "run" / "checkpoint_last.pt"
    fairseq("generate", data, "--path", last, "--beam", 5, "--cpu", "--results-path", tmp_path / "out",
            "-s", "xx", "-t", "yy", "--max-len-b", 12, "--task", task)  # fmt: skip
    generated = tmp_path / "out" / "generate-test.txt"
    scored = run(sys.executable, REPOSITORY / "scripts" / "score.py", generated, "--reference", data.parent / "test.yy",
                 "--bpe", "none", "--target", "en")  # fmt: skip
    assert re.search(r"BLEU.*\d+\.\d", scored.stdout)
    marked = [line for line in generated.read_text().splitlines() if line.startswith("H-")]
    assert len(marked) == 12, "a sentence was left out"


def test_interactive_and_validate(data: Path, tmp_path: Path) -> None:
    """From another directory, with the path that ``python -m fairseq_localattn --path`` prints."""
    fairseq("train", *train_flags(data, "transformer_csan_tiny", tmp_path / "run", updates=2))
    last = tmp_path / "run" / "checkpoint_last.pt"
    path = run(sys.executable, "-m", "fairseq_localattn", "--path", cwd=tmp_path).stdout.strip()
    assert Path(path) == USER_DIR
    command = [sys.executable, "-m", "fairseq_cli.interactive", data, "--user-dir", path, "--path", last, "--cpu",
               "--input", data.parent / "test.xx", "-s", "xx", "-t", "yy", "--beam", 2]  # fmt: skip
    translated = run(*command, cwd=tmp_path).stdout
    assert sum(line.startswith("H-") for line in translated.splitlines()) == 12
    validated = fairseq("validate", data, "--task", "translation", "--path", last, "--cpu", "--max-tokens", 500,
                        cwd=tmp_path)  # fmt: skip
    found = re.search(r"valid on 'valid' subset \| loss ([\d.]+)", validated.stdout + validated.stderr)
    assert found and 0 < float(found[1]) < 20


def test_language_model(data: Path, tmp_path: Path) -> None:
    """fairseq-eval-lm with the plugin: checkpoints are allowed, numpy 2 is no obstacle, every sentence is scored."""
    prefixes = [
        word for split in ("train", "valid", "test") for word in (f"--{split}pref", data.parent / f"{split}.xx")
    ]
    run(sys.executable, "-m", "fairseq_cli.preprocess", "--only-source", *prefixes, "--destdir", tmp_path / "bin")
    fairseq(
        "train", tmp_path / "bin", "--task", "language_modeling", "--arch", "transformer_lm", "--decoder-layers", 1,
        "--decoder-embed-dim", 32, "--decoder-ffn-embed-dim", 32, "--decoder-attention-heads", 2, "--optimizer", "adam",
        "--lr", 0.01, "--max-tokens", 500, "--max-update", 5, "--cpu", "--num-workers", 0, "--no-epoch-checkpoints",
        "--sample-break-mode", "eos", "--tokens-per-sample", 32, "--save-dir", tmp_path / "run",
    )  # fmt: skip
    scored = fairseq(
        "eval-lm", tmp_path / "bin", "--path", tmp_path / "run" / "checkpoint_last.pt", "--cpu", "--gen-subset", "test",
        "--sample-break-mode", "eos", "--max-tokens", 500,
    )  # fmt: skip
    words = sum(len(line.split()) + 1 for line in (data.parent / "test.xx").read_text().splitlines())
    assert f"Evaluated {words} tokens" in scored.stdout + scored.stderr


@pytest.mark.parametrize("arch", TINY)
def test_resumed_equals_uninterrupted(arch: str, data: Path, tmp_path: Path) -> None:
    """Killed in its second epoch and started again: the same weights, optimizer state and history, to the bit."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    flags = {"save_interval_updates": 4, "keep_interval_updates": -1, "task": task_of(arch)}
    fairseq("train", *train_flags(data, arch, whole, updates=16, **flags))
    cut.mkdir()
    shutil.copy(whole / "checkpoint_2_12.pt", cut / "checkpoint_last.pt")
    resumed = fairseq("train", *train_flags(data, arch, cut, updates=16, **flags))
    assert "Loaded checkpoint" in resumed.stderr + resumed.stdout
    a, b = checkpoint(whole / "checkpoint_2_16.pt"), checkpoint(cut / "checkpoint_2_16.pt")
    assert_same(a["model"], b["model"], "model")
    assert_same(a["last_optimizer_state"], b["last_optimizer_state"], "optimizer")
    assert a["optimizer_history"][-1]["num_updates"] == b["optimizer_history"][-1]["num_updates"] == 16


TAGGING: dict[str, object] = {
    "task": "translation_with_phrases", "mgsa_tags": True, "tag_loss_weight": 0.5,
    "criterion": "label_smoothed_cross_entropy_with_phrase_tags",
}  # fmt: skip


@pytest.mark.parametrize(("arch", "more"), [("transformer_csan_tiny", {}), ("transformer_mgsa_tiny", TAGGING)])
def test_two_processes_equal_one(arch: str, more: dict[str, object], data: Path, tmp_path: Path) -> None:
    """Two gloo processes against one that accumulates two batches: the same weights within 1e-5, without dropout."""
    import socket
    import subprocess

    flags: dict[str, object] = {"dropout": 0, "lr": 0.0005, **more}
    fairseq("train", *train_flags(data, arch, tmp_path / "one", updates=4, update_freq=2, **flags))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags |= {
        "distributed_world_size": 2, "distributed_init_method": f"tcp://127.0.0.1:{port}", "distributed_no_spawn": True,
        "distributed_backend": "gloo", "ddp_backend": "legacy_ddp",
    }  # fmt: skip
    ranks = []
    for rank in (0, 1):
        words = train_flags(data, arch, tmp_path / "two", updates=4, distributed_rank=rank, **flags)
        command = [sys.executable, "-m", "fairseq_cli.train", *map(str, words), "--user-dir", str(USER_DIR)]
        log = open(tmp_path / f"rank{rank}.log", "w")  # noqa: SIM115
        ranks.append(subprocess.Popen(command, env=environment(), stdout=log, stderr=log))
    assert [rank.wait(timeout=240) for rank in ranks] == [0, 0], (tmp_path / "rank0.log").read_text()[-3000:]
    one, two = (checkpoint(tmp_path / n / "checkpoint_last.pt") for n in ("one", "two"))
    assert two["optimizer_history"][-1]["num_updates"] == 4
    if more:
        tags = re.findall(r'"train_tag_loss": "([\d.]+)"', (tmp_path / "rank0.log").read_text())
        assert tags and float(tags[-1]) > 0, "the loss of the tags is not summed over the processes"
    for key, weight in one["model"].items():
        torch.testing.assert_close(two["model"][key], weight, rtol=0, atol=1e-5, msg=lambda m, key=key: f"{key}: {m}")


def test_a_stock_checkpoint_is_taken_over(data: Path, tmp_path: Path) -> None:
    """A checkpoint of fairseq's own Transformer, trained without the plugin's models, continues as transformer_csan."""
    fairseq("train", *train_flags(data, "transformer_localattn_tiny", tmp_path / "stock", updates=2))
    stock = tmp_path / "stock" / "checkpoint_last.pt"
    flags = {"finetune_from_model": stock, "lr": 0}
    taken = fairseq("train", *train_flags(data, "transformer_csan_tiny", tmp_path / "csan", updates=1, **flags))
    assert f"loading pretrained model from {stock}" in taken.stdout + taken.stderr
    before, after = checkpoint(stock), checkpoint(tmp_path / "csan" / "checkpoint_last.pt")
    assert_same(before["model"], after["model"], "model")  # the learning rate was 0


MISTAKES = [
    (["--csan-window", "4"], "window must be odd"),
    (["--csan-heads", "7"], "7 heads was asked for, and there are 4"),
    (["--csan-cross-layers", "1"], "--csan-cross-layers"),
]


@pytest.mark.parametrize(("flags", "message"), MISTAKES)
def test_mistakes_end_in_one_line(flags: list[str], message: str, data: Path, tmp_path: Path) -> None:
    """No traceback, a non-zero exit, and nothing written."""
    words = train_flags(data, "transformer_csan_tiny", tmp_path / "run", updates=1)
    failed = fairseq("train", *words, *flags, check=False)
    said = [line for line in failed.stderr.splitlines() if not line.startswith(("INFO:", "DEBUG:", "WARNING:"))]
    assert failed.returncode == 1 and len(said) == 1 and message in said[0], failed.stderr
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("*.pt"))


def test_the_attention_modules_need_torch_alone() -> None:
    """Importable and usable where fairseq is not installed."""
    program = """
import sys, importlib.abc
class NoFairseq(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("fairseq", "omegaconf", "hydra", "sacrebleu"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoFairseq())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "fairseq" else find(name, *rest)
import torch
from fairseq_localattn.mechanisms.convolutional import ConvolutionalAttention
from fairseq_localattn.mechanisms.mixed import MixedAttention
x = torch.randn(5, 2, 16)
for attention in (ConvolutionalAttention(16, 4), MixedAttention(16, 4, head_kinds=["local"] * 4)):
    assert attention(x, x, x)[0].shape == x.shape
assert "fairseq" not in sys.modules
"""
    run(sys.executable, "-c", program, cwd=REPOSITORY)
