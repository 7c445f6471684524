"""Hostile checkpoints in every command that reads one. What is refused of a file: tests/stored/test_contents.py."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from support.attacks.world import COMMANDS, NO_CHECKPOINT, World
from support.cli import Done

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("attacks")]  # one world serves all
READERS = [name for name in COMMANDS if name not in NO_CHECKPOINT]
SECRET = "kept-secret-7351"  # the value of an environment variable that no output may have
MEMORY = 1 << 30  # bytes that a command may take beyond what this process has
SECONDS = 20
State = dict[str, Any]
Write = Callable[[State, Path], object]


class Payload:
    """An object that creates the file ``canary`` when it is unpickled without protection."""

    def __reduce__(self) -> Any:
        return os.system, ("touch canary",)


CODE = "__import__('pathlib').Path('canary').touch()"


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


def narrower(state: State, path: Path) -> None:
    """Write a checkpoint whose first matrix has a row less."""
    name = next(name for name, value in state["model"].items() if value.dim() == 2)
    state["model"][name] = state["model"][name][:-1].clone()
    torch.save(state, path)


def nested(state: State, path: Path) -> None:
    """Write a checkpoint whose pickle holds a list of 100,000 levels."""
    levels = 100_000
    data = b"\x80\x02}X\x05\x00\x00\x00modelq\x00" + b"]" * levels + b"a" * (levels - 1) + b"s."
    torch.save(state, path.with_name("whole"))
    with zipfile.ZipFile(path.with_name("whole")) as old, zipfile.ZipFile(path, "w") as new:
        for record in old.infolist():
            new.writestr(record.filename, data if record.filename.endswith("data.pkl") else old.read(record))


#: Files that are refused.
REFUSED: dict[str, Write] = {
    "code": lambda state, path: torch.save({**state, "model": {**state["model"], "weight": Payload()}}, path),
    "a pickle": lambda state, path: path.write_bytes(pickle.dumps({"model": Payload()}, protocol=0)),
    "a directory": lambda _, path: path.mkdir(),
    "a fifo": lambda _, path: os.mkfifo(path),
    "/dev/zero": lambda _, path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda _, path: path.symlink_to(path),
    "levels": nested,
    "another shape": narrower,
    "the secret": with_("model", data="${oc.env:OF_THE_USER}"),
}
#: A command, and a file with options that are refused where it reads them; those of HARMLESS have no effect.
BORDER: dict[str, tuple[str, Write]] = {
    "no task": ("generate", part("task", None)),
    "no epoch": (
        "train --restore-file",
        lambda state, path: torch.save({**state, "extra_state": {**state["extra_state"], "train_iterator": {}}}, path),
    ),
    "no options of the model": ("locality", lambda state, path: torch.save({**state, "cfg": {"task": {}}}, path)),
    "no criterion": ("validate", part("criterion", None)),
    "an unknown architecture": ("locality", with_("model", arch="no_such_arch", _name="no_such_arch")),
    "code in a criterion": ("validate", part("criterion", {"_name": "ctc", "wer_args": CODE})),
    "code in an optimizer": ("train --restore-file", part("optimizer", {"_name": "adam", "adam_betas": CODE})),
    "a user_dir": ("train --finetune-from-model", with_("common", user_dir="stranger")),
    "embeddings from a fifo": ("heatmap", with_("model", decoder_embed_path="fifo")),
    "codes that are no file": ("from_pretrained", part("bpe", {"_name": "subword_nmt"})),
    "layers of text": ("interactive", with_("model", encoder_layers="many")),
    "dropout of NaN": ("generate", with_("model", dropout=float("nan"))),
    "a billion layers": ("describe", with_("model", csan_encoder_layers="1-1000000000")),
    "a lone surrogate": ("probing", with_("task", target_lang="y\udcffy")),
    "an option of 10 MB": ("average", with_("task", long="x" * 10_000_000)),
    "a weight too many": (
        "train --restore-file",
        lambda state, path: torch.save({**state, "model": {**state["model"], "stranger": torch.zeros(3)}}, path),
    ),
}
HARMLESS = ("code in an optimizer", "a user_dir", "an option of 10 MB")
# Code in every command, and every other file in one of them.
PAIRS = [
    *((command, "code", REFUSED["code"]) for command in READERS),
    *((READERS[at % len(READERS)], name, write) for at, (name, write) in enumerate(REFUSED.items()) if at),
    ("train --restore-file", "a fifo", REFUSED["a fifo"]),
    *((command, name, write) for name, (command, write) in BORDER.items()),
]
# What a command has no means to see: the shape is right for some other options.
UNSEEN = [(command, "another shape") for command in ("average", "describe")]


def memory(place: int) -> int:
    """Return the virtual (0) or resident (1) memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[place]) * resource.getpagesize()


def in_a_fork(run: Callable[[], Done], answer: Any) -> None:
    """Run a command with bounded memory and without input, and send its outcome."""
    before = memory(1)
    resource.setrlimit(resource.RLIMIT_AS, (memory(0) + 4 * MEMORY,) * 2)
    os.environ["OF_THE_USER"] = SECRET
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    done = run()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    answer.send((done.returncode, done.stdout, done.stderr, grown))


def outcome_of(command: str, world: World, path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Return status, output and errors of a command that reads a checkpoint, within bounds of time and memory."""
    monkeypatch.chdir(path.parent)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    run = (lambda: COMMANDS[command].run(world, world.data(command), path), sender)
    process = multiprocessing.get_context("fork").Process(target=in_a_fork, args=run)
    process.start()
    sender.close()
    try:
        assert receiver.poll(SECONDS), "still at work"
        status, out, err, grown = receiver.recv()
    finally:
        process.kill()
        process.join()
    assert grown < MEMORY, f"{grown / 2**20:.0f} MiB: {err[-500:]}"
    return status, out, err


@pytest.mark.parametrize("command", READERS)
def test_a_valid_checkpoint_is_read(
    command: str, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command as it is called here succeeds; without this the refusals would show nothing."""
    (tmp_path / "checkpoint_last.pt").symlink_to(world.model(COMMANDS[command].kind))
    status, _, err = outcome_of(command, world, tmp_path / "checkpoint_last.pt", monkeypatch)
    assert status == 0, err


@pytest.mark.parametrize(("command", "name", "write"), PAIRS, ids=lambda x: x if isinstance(x, str) else "")
def test_hostile(
    command: str, name: str, write: Write, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused in one line, or the command ends well where the file is harmless."""
    path = tmp_path / "checkpoint_last.pt"
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "stranger").mkdir()
    (tmp_path / "stranger/__init__.py").write_text(CODE)
    write(torch.load(world.model(COMMANDS[command].kind), weights_only=True), path)
    status, out, err = outcome_of(command, world, path, monkeypatch)
    text = out + err
    assert not (tmp_path / "canary").exists(), f"code of the checkpoint was run: {text}"
    assert "Traceback" not in text and "weights_only" not in text and SECRET not in text, text[-3000:]
    if status == 0:
        assert name in HARMLESS or (command, name) in UNSEEN, f"accepted: {out[-1000:]}"
    else:
        (line,) = [line for line in err.splitlines() if line.strip()]
        assert len(line) < 1500
