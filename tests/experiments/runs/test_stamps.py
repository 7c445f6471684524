"""Stamps that are damaged: the step counts as not done, is done again, and ends as it would have."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from experiments.recipes.recipe import Recipe
from experiments.runs import schedule
from experiments.runs.checkpoints import LAST
from experiments.system.checkout import code_of
from experiments.system.processes import described, read_stamp, write_stamp
from experiments.system.progress import Progress
from support.engine.runs import FakeRun, fake_run, save_checkpoint
from support.recipes import BASE, load

DAMAGED = [b"", b"[]", b'{"updates": 3', b"\xff\xfe{}", b"[" * 100_000]


def finish(run: FakeRun) -> None:
    schedule.run_all([run], [run.launch], Progress())
    assert run.done()


@pytest.mark.parametrize("content", [DAMAGED[0], b'{"seed": 1}'])
def test_a_damaged_stamp_of_a_training(content: bytes, loaded: Recipe, tmp_path: Path) -> None:
    """The stamp is written anew from the checkpoint, without training; that of the measure by measuring again."""
    one = fake_run(loaded, tmp_path, "a")
    save_checkpoint(one.folder, 3)
    (one.folder / "train.log").write_text("")
    write_stamp(one.folder / "generated.json", {"output": "generate-test.txt"})
    (one.folder / "trained.json").write_bytes(content)
    assert not one.done() and one.facts() == {} and "trained, to be decoded" in one.plan()
    assert one.advance() is False
    assert one.advance() is True and one.facts()["updates"] == 3
    (one.folder / "generated.json").write_bytes(b"{}")
    assert not one.done()
    finish(one)
    assert json.loads((one.folder / "generated.json").read_text()) == {"output": "generate-test.txt"}


def test_a_damaged_stamp_of_an_average(tmp_path: Path) -> None:
    """The average is whole, and what it was made of is gone: it is not made again."""
    one = fake_run(load(tmp_path, BASE + "average: {last: 2}\n"), tmp_path, "a")
    write_stamp(one.folder / "trained.json", {"updates": 3})
    shutil.copy(save_checkpoint(one.folder, 3), one.model)
    (one.folder / LAST).unlink()
    (one.folder / "averaged.json").write_text("{}")
    assert not one.done()
    finish(one)
    assert json.loads((one.folder / "averaged.json").read_text()) == {"average": {"last": 2}}


def test_a_damaged_stamp_of_the_code(loaded: Recipe, tmp_path: Path) -> None:
    """The results say that it is unknown which code has run, beside that which goes on."""
    one = fake_run(loaded, tmp_path, "a")
    one.folder.mkdir()
    assert code_of(one.folder) == [] and one.commit() == ""
    for content in (DAMAGED[3], b'{"code": "abc"}', b'{"code": [{}]}'):
        (one.folder / "started.json").write_bytes(content)
        assert one.commit() == "unknown", content
    assert "commit unknown" in one.plan()
    one._note_code()
    assert one.commit().startswith("unknown..") and len(code_of(one.folder)) == 2


def test_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    write_stamp(path, {"updates": 3, "speed": 1.5})
    with pytest.raises(ValueError, match="not JSON compliant"):  # what would be read as damage is not written
        write_stamp(path, {"speed": float("nan")})
    assert read_stamp(path, "speed") == {"updates": 3, "speed": 1.5} and read_stamp(path, "more") is None
    for content in DAMAGED:
        path.write_bytes(content)
        assert read_stamp(path) is None, content[:9]
    path.unlink()
    assert read_stamp(path) is None


def test_a_stamp_that_cannot_be_read(loaded: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done again: the step may be finished. The table ends with the line of ``described``."""
    one = fake_run(loaded, tmp_path, "a")
    write_stamp(one.folder / "trained.json", {"updates": 3})

    def read_text(path: Path, encoding: str) -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(Path, "read_text", read_text)
    with pytest.raises(OSError) as found:
        one.done()
    assert described(found.value).startswith(f"{one.folder / 'trained.json'}: {os.strerror(errno.EIO)}")
