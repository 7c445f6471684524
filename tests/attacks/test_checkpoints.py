"""Hostile checkpoints in the commands that read them. What is refused of a file: tests/stored/test_contents.py."""

from __future__ import annotations

import os
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from support.attacks.world import READERS, World, assert_one_line, bounded
from support.checkpoints import Payload

pytestmark = pytest.mark.xdist_group("attacks")  # one world serves all
State = dict[str, Any]
Write = Callable[[State, Path], object]
CODE = "__import__('pathlib').Path('canary').touch()"


@pytest.mark.parametrize("command", READERS)
def test_no_command_runs_code(command: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"model": {"weight": Payload()}}, tmp_path / "x.pt")
    done = READERS[command](world.data, tmp_path / "x.pt")
    assert_one_line(done, f"refused to load {tmp_path}/x.pt: it holds posix.system")
    assert not (tmp_path / "canary").exists()


def with_(part: str, **values: Any) -> Write:
    """Return what writes a checkpoint with other options in a part of its configuration."""

    def write(state: State, path: Path) -> None:
        found = state["cfg"][part]
        (vars(found) if isinstance(found, Namespace) else found).update(values)
        torch.save(state, path)

    return write


def part(name: str, value: Any) -> Write:
    """Return what writes a checkpoint with another part of its configuration; None: without it."""

    def write(state: State, path: Path) -> None:
        cfg = {key: found for key, found in state["cfg"].items() if key != name}
        torch.save({**state, "cfg": cfg if value is None else {**cfg, name: value}}, path)

    return write


def nested(state: State, path: Path) -> None:
    """Write a checkpoint whose pickle holds a list of 100,000 levels."""
    levels = 100_000
    data = b"\x80\x02}X\x05\x00\x00\x00modelq\x00" + b"]" * levels + b"a" * (levels - 1) + b"s."
    torch.save(state, path.with_name("whole"))
    with zipfile.ZipFile(path.with_name("whole")) as old, zipfile.ZipFile(path, "w") as new:
        for record in old.infolist():
            new.writestr(record.filename, data if record.filename.endswith("data.pkl") else old.read(record))


#: A command, a file that it refuses (None: its options have no effect), and what it says.
FILES: dict[str, tuple[str, Write, str | None]] = {
    "a directory": ("locality", lambda _, path: path.mkdir(), "it is no file"),
    "a fifo": ("train --restore-file", lambda _, path: os.mkfifo(path), "it is no file"),
    "/dev/zero": ("generate", lambda _, path: path.symlink_to("/dev/zero"), "it is no file"),
    "a link to itself": ("validate", lambda _, path: path.symlink_to(path), "it is no file"),
    "levels": ("describe", nested, "it has no options"),
    "no task": ("generate", part("task", None), "cannot use"),
    "no epoch": (
        "train --restore-file",
        lambda state, path: torch.save({**state, "extra_state": {**state["extra_state"], "train_iterator": {}}}, path),
        "cannot continue from",
    ),
    "no criterion": ("validate", part("criterion", None), "cannot make the criterion"),
    "an unknown architecture": ("locality", with_("model", arch="no_such_arch", _name="no_such_arch"), "no_such_arch"),
    "code in a criterion": ("validate", part("criterion", {"_name": "ctc", "wer_args": CODE}), "refused to evaluate"),
    "code in an optimizer": ("train --restore-file", part("optimizer", {"_name": "adam", "adam_betas": CODE}), None),
    "a user_dir": ("train --finetune-from-model", with_("common", user_dir="stranger"), None),
    "codes that are no file": ("from_pretrained", part("bpe", {"_name": "subword_nmt"}), "cannot make the tokeniser"),
    "a weight too many": (
        "train --restore-file",
        lambda state, path: torch.save({**state, "model": {**state["model"], "stranger": torch.zeros(3)}}, path),
        "1 tensor that the model lacks, stranger",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile(name: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused in one line, or the command ends well where the file is harmless."""
    command, write, says = FILES[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger/__init__.py").write_text(CODE)
    write(torch.load(world.model(), weights_only=True), tmp_path / "x.pt")
    with bounded():
        done = READERS[command](world.data, tmp_path / "x.pt")
    assert not (tmp_path / "canary").exists(), "code of the checkpoint was run"
    if says is None:
        assert done.returncode == 0, done.stderr
    else:
        assert_one_line(done, says)
