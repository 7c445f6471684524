"""What the runs read of fairseq's checkpoints and logs, also of those that a kill has cut off."""

from __future__ import annotations

import errno
import json
import os
import shlex
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from experiments.runs import checkpoints
from experiments.system import logs
from support.engine.runs import save_checkpoint
from support.models import build, parse


def test_a_damaged_last_checkpoint_counts_nothing(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 3)
    assert checkpoints.checkpoint_updates(tmp_path) == 3
    path.write_bytes(path.read_bytes()[:100])
    assert checkpoints.checkpoint_updates(tmp_path) == 0


def write_checkpoint(path: Path, text: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", text * 1000)


def test_half_a_last_checkpoint_is_mended(tmp_path: Path) -> None:
    for number, name in enumerate(("checkpoint_1_100.pt", "checkpoint_1_200.pt", "checkpoint_last.pt")):
        write_checkpoint(tmp_path / name, str(number))
        os.utime(tmp_path / name, (number, number))
    last = tmp_path / "checkpoint_last.pt"
    whole = last.read_bytes()
    checkpoints.mend_last_checkpoint(tmp_path)
    assert last.read_bytes() == whole
    last.write_bytes(whole[:200])
    checkpoints.mend_last_checkpoint(tmp_path)
    assert last.read_bytes() == (tmp_path / "checkpoint_1_200.pt").read_bytes()
    for path in tmp_path.glob("*.pt"):
        path.write_bytes(b"cut")
    checkpoints.mend_last_checkpoint(tmp_path)
    assert not last.exists()


def test_a_checkpoint_that_cannot_be_read_now_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the disk or the network says nothing of the file."""
    write_checkpoint(tmp_path / "checkpoint_last.pt", "x")
    monkeypatch.setattr(zipfile.ZipFile, "testzip", Mock(side_effect=OSError(errno.EIO, os.strerror(errno.EIO))))
    with pytest.raises(OSError, match="Input/output error"):
        checkpoints.mend_last_checkpoint(tmp_path)
    assert (tmp_path / "checkpoint_last.pt").exists()


def test_averaged_checkpoints_are_removed(tmp_path: Path) -> None:
    kept = {"checkpoint_last.pt", "checkpoint_best.pt", "checkpoint3.pt", "averaged.pt"}
    for name in (*kept, "checkpoint_1_100.pt", "checkpoint_2_200.pt", "checkpoint.best_loss_3.14.pt"):
        write_checkpoint(tmp_path / name, "x")
    checkpoints.remove_averaged(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_facts_of_an_interrupted_training(tmp_path: Path) -> None:
    def line(updates: int, wps: float) -> str:
        return json.dumps({"num_updates": str(updates), "wps": str(wps), "wpb": "100", "wall": str(updates)})

    lines = [line(10, 50), line(20, 1), line(20, 100), line(30, 100)]  # 20 was done again after a kill
    save_checkpoint(tmp_path, 30)
    (tmp_path / "train.json.log").write_text("\n".join(lines))
    facts = checkpoints.training_facts(tmp_path)
    speeds = {"words_per_second": 75, "steps_per_second": 0.75, "train_minutes": 0.67}
    assert facts == {"updates": 30, "parameters": None, "attention": None, **speeds}
    assert checkpoints.training_facts(tmp_path, alone=False) == {**facts, "steps_per_second": None}


@pytest.mark.parametrize("arch", [f"transformer_{name}_tiny" for name in ("mgsa", "lm_diffwin", "diffwin_classifier")])
def test_parameters_are_those_that_fairseq_counts(arch: str) -> None:
    model = build(arch)
    tensors = {name: tensor.clone() for name, tensor in model.state_dict().items()}  # as from a GPU
    assert checkpoints.parameters_of(tensors) == sum(parameter.numel() for parameter in model.parameters())


def test_the_texts_of_a_model_are_facts(tmp_path: Path) -> None:
    """As flags that are read again: from the arguments that the checkpoint has."""
    encoder, cross = '1: ngram(heads="word:1,2:3"); 2: local & alibi > ffn', "1: 2*aw + 2*mw; 2: gauss(cut=true)"
    flags = ["--localattn-encoder", encoder, "--localattn-cross", cross]
    csan = ["--localattn-encoder", "1: csan"]
    rest = {"extra_state": {}, "optimizer_history": [{"best_loss": 1.0}]}
    for arch, given, wanted in (("transformer_hybrid_tiny", flags, flags), ("transformer_csan_tiny", [], csan)):
        saved = {**rest, "cfg": {"model": parse(arch, given)}, "model": build(arch, given).state_dict()}
        torch.save(saved, tmp_path / "a.pt")
        assert shlex.split(checkpoints.attention_of(tmp_path / "a.pt") or "") == wanted
    plain = "transformer_localattn_tiny"
    torch.save({**rest, "cfg": {"model": parse(plain)}, "model": build(plain).state_dict()}, tmp_path / "a.pt")
    assert checkpoints.attention_of(tmp_path / "a.pt") is None, "all plain"
    assert checkpoints.attention_of(tmp_path / "none.pt") is None


def test_the_last_validation(tmp_path: Path) -> None:
    assert logs.last_validation(tmp_path, "tag_accuracy") is None
    lines = ['{"valid_tag_accuracy": "50"}', '{"valid_tag_accuracy": "61.5"}', '{"valid_loss": "2"}', '{"valid_tag']
    (tmp_path / "train.json.log").write_text("\n".join(lines))
    assert logs.last_validation(tmp_path, "tag_accuracy") == "61.5"
    assert logs.last_validation(tmp_path, "accuracy") is None
