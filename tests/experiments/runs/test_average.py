"""scripts/average.py: the mean of real checkpoints, which fairseq-generate reads; and what it refuses."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments.measure import generated
from experiments.runs import averaging as average
from fairseq_localattn.errors import UsageError
from support.cli import REPOSITORY, fairseq, make_data, run, train_flags

SCRIPTS = REPOSITORY / "scripts"
pytestmark = pytest.mark.xdist_group("average")  # one training run serves all of this file


def load(path: Path) -> dict[str, Any]:
    return torch.load(path, map_location="cpu", weights_only=True)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return (data, checkpoints) of a training of nine updates, more than an epoch, with all kinds of checkpoints."""
    folder = tmp_path_factory.mktemp("average")
    data = make_data(folder / "data", train=150)
    flags = train_flags(
        data, "transformer_mma_tiny", folder / "run", 9, save_interval_updates=1, keep_best_checkpoints=3
    )
    fairseq("train", *[flag for flag in flags if flag != "--no-epoch-checkpoints"])
    return data, folder / "run"


@pytest.fixture
def folder(trained: tuple[Path, Path], tmp_path: Path) -> Path:
    """Return the folder of a copy of the checkpoints."""
    return Path(shutil.copytree(trained[1], tmp_path / "run"))


def updates(path: Path) -> int:
    return load(path)["optimizer_history"][-1]["num_updates"]


def change(path: Path, how: Callable[[dict[str, Any]], object]) -> Path:
    """Change what a checkpoint holds; return its path."""
    state = load(path)
    how(state)
    torch.save(state, path)
    return path


# --- which ones


def test_the_last_by_updates(folder: Path) -> None:
    """At the end of an epoch there is no checkpoint_E_U.pt; checkpoint_last.pt stands in where it is the newest."""
    names = {path.name for path in folder.iterdir()}
    ends = {path: updates(folder / path) for path in names if re.fullmatch(r"checkpoint\d+\.pt", path)}
    assert ends and all(
        not any(re.fullmatch(rf"checkpoint_\d+_{n}\.pt", name) for name in names) for n in ends.values()
    )
    found = average.select(folder, "last", 3)
    assert [updates(path) for path in found] == sorted(updates(path) for path in found)
    assert updates(found[-1]) == 9
    by_updates = sorted(n for n in range(1, 10) if n not in ends.values())
    assert [updates(path) for path in found] == by_updates[-3:]
    # Without that one, the end of the first epoch is the last update.
    newest = next(path for path in folder.iterdir() if re.fullmatch(r"checkpoint_\d+_9\.pt", path.name))
    newest.unlink()
    assert average.select(folder, "last", 2)[-1] == folder / "checkpoint_last.pt"
    # The numbers count, not the letters.
    for name in ("checkpoint_2_10.pt", "checkpoint_10_100.pt", "checkpoint_2_10.pt.new", "checkpoint_average_1.pt"):
        shutil.copy(folder / "checkpoint_last.pt", folder / name)
    assert [path.name for path in average.select(folder, "last", 2)] == ["checkpoint_2_10.pt", "checkpoint_10_100.pt"]


@pytest.mark.parametrize("more", [False, True])
def test_the_best(more: bool, folder: Path) -> None:
    """The lowest losses, the lowest last; the other way round where the training has said so."""
    files = sorted(folder.glob("checkpoint.best_loss_*.pt"), key=lambda path: float(path.stem.rsplit("_")[-1]))
    assert len(files) == 3
    if more:
        for path in files:
            change(path, lambda state: state["cfg"]["checkpoint"].update(maximize_best_checkpoint_metric=True))
    ranked = files if more else files[::-1]
    assert average.select(folder, "best", 3) == ranked and average.select(folder, "best", 1) == ranked[-1:]
    shutil.copy(files[0], folder / "checkpoint.best_bleu_3.1415.pt")
    with pytest.raises(UsageError, match="best checkpoints by bleu and by loss"):
        average.select(folder, "best", 1)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (("last", 12), r"\d checkpoints by updates .* 12 are needed; --keep-interval-updates says"),
        (
            ("best", 4),
            r"3 checkpoints that were the best .* 4 are needed; .* so one alone where the first was the best",
        ),
    ],
)
def test_too_few(how: tuple[str, int], message: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=message):
        average.select(folder, *how)


# --- the mean


def test_is_the_plain_mean(folder: Path) -> None:
    """In the parameters' precision, without losses in between; integers and booleans are the last one's."""
    paths = average.select(folder, "last", 3)
    values = [torch.tensor([60000.0, 1.0, 1 / 3]), torch.tensor([65000.0, 2.0, 2**-11]), torch.tensor([61000.0, 4, 3])]
    for number, (path, value) in enumerate(zip(paths, values, strict=True)):
        more = {"half": value.half(), "double": value.double(), "steps": torch.tensor(number)}
        more |= {"same": torch.tensor([1, 2]), "on": torch.tensor(number != 1)}
        change(path, lambda state, more=more: state["model"].update(more))  # type: ignore[misc]
    states = [load(path) for path in paths]
    told: list[str] = []
    average.average(paths, folder / "averaged.pt", told.append)
    found, last = load(folder / "averaged.pt"), states[-1]
    assert found["model"].keys() == last["model"].keys()
    changed = 0
    for name, value in found["model"].items():
        stacked = torch.stack([state["model"][name] for state in states])
        expected = stacked.double().mean(0).to(stacked.dtype) if stacked.is_floating_point() else stacked[-1]
        assert value.dtype == stacked.dtype and torch.equal(value, expected), name
        changed += not torch.equal(value, last["model"][name])
    assert changed > 20 and found["model"]["half"].isfinite().all()
    assert f"not the same in all, taken from {paths[-1].name}: on, steps" in told
    # All else is that of the last; fairseq's optimizer is not needed for what is never trained further.
    assert found.keys() == last.keys() - {"last_optimizer_state"}
    assert found["optimizer_history"] == last["optimizer_history"] and str(found["cfg"]) == str(last["cfg"])
    assert found["extra_state"]["averaged"] == [path.name for path in paths]
    assert {**found["extra_state"], "averaged": 0} == {**last["extra_state"], "averaged": 0}


def test_embeddings_stay_shared(folder: Path) -> None:
    paths = average.select(folder, "last", 2)
    average.average(paths, folder / "averaged.pt")
    model = load(folder / "averaged.pt")["model"]
    shared = [model[f"{side}.embed_tokens.weight"].untyped_storage().data_ptr() for side in ("encoder", "decoder")]
    assert shared[0] == shared[1]
    # What was one tensor and has come apart is two.
    before = load(paths[1])["model"]["decoder.embed_tokens.weight"]
    change(paths[0], lambda state: state["model"].update({"decoder.embed_tokens.weight": torch.zeros_like(before)}))
    average.average(paths, folder / "averaged.pt")
    apart = load(folder / "averaged.pt")["model"]
    assert torch.equal(apart["decoder.embed_tokens.weight"], before / 2)
    assert not torch.equal(apart["encoder.embed_tokens.weight"], before / 2)


@pytest.mark.slow
def test_fairseq_generates_with_it(trained: tuple[Path, Path], folder: Path, tmp_path: Path) -> None:
    """The command, and fairseq-generate with what it has written."""
    done = run(
        sys.executable, SCRIPTS / "average.py", folder, "--last", "3", "--output", tmp_path / "averaged.pt"
    )  # fmt: skip
    assert re.search(r"\(3 of 3\)\naverage: written to .*averaged.pt\n$", done.stdout) and done.stderr == ""
    where = ("--path", tmp_path / "averaged.pt", "--results-path", tmp_path, "--gen-subset", "test", "--beam", "2")
    fairseq("generate", trained[0], *where, "--cpu", "-s", "xx", "-t", "yy")
    assert len(generated.read_generated(tmp_path / "generate-test.txt", 12)) == 12


# --- what is refused


def fails(paths: list[Path], message: str) -> None:
    """Assert that averaging stops with this message, and writes nothing."""
    target = paths[-1].parent / "averaged.pt"
    with pytest.raises(UsageError, match=message) as caught:
        average.average(paths, target)
    assert "\n" not in str(caught.value)
    assert not list(target.parent.glob("averaged.pt*"))


class Payload:
    """Unpickled without protection, it creates the file `marker`."""

    def __init__(self, marker: Path):
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch '{self.marker}'",)


def test_code_is_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    paths = average.select(folder, "last", 2)
    change(paths[1], lambda state: state["extra_state"].update(meter=Payload(tmp_path / "marker")))
    fails(paths, rf"refused to load .*{paths[1].name}: it holds (posix|os)\.system, which")
    assert not (tmp_path / "marker").exists()


def test_half_a_file_is_refused(folder: Path) -> None:
    paths = average.select(folder, "last", 2)
    data = paths[0].read_bytes()
    for half in (data[: len(data) // 2], b"", data[:1000] + bytes(64) + data[1064:]):
        paths[0].write_bytes(half)
        fails(paths, f"{paths[0].name}: half a file, or no checkpoint")


def test_other_models_are_refused(folder: Path) -> None:
    paths, name = average.select(folder, "last", 2), "decoder.layers.0.fc1.bias"
    good = paths[1].read_bytes()
    for how, message in (
        (lambda model: model.update({name: torch.zeros(3)}), rf"{name} is \(\(3,\), .*float32\), but \(\(128,\), .*"),
        (lambda model: model.pop(name), f"{name} is not there, but "),
        (
            lambda model: model[name].fill_(float("nan")),
            f"1 of .* weights hold NaN or infinity, model.{name}",
        ),
        (lambda model: model.update(version=3), ".*it has no model of fairseq's in it"),
    ):
        paths[1].write_bytes(good)
        change(paths[1], lambda state, how=how: how(state["model"]))  # type: ignore[misc]
        fails(paths, f"{paths[1].name}: {message}")


def test_files_that_cannot_be(folder: Path) -> None:
    one, other = average.select(folder, "last", 2)
    with pytest.raises(FileNotFoundError):
        average.average([one, folder / "none.pt"], folder / "averaged.pt")
    fails([one, folder / ".." / folder.name / one.name], "is named twice")
    before = other.read_bytes()
    with pytest.raises(UsageError, match="is one of the checkpoints"):
        average.average([one, other], other)
    assert other.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run"], "is a folder: give --last"),
        (["run", "run", "--last", "2"], "take one folder"),
        (["none", "--last", "2"], "none: no such folder"),
    ],
)
def test_command_fails_in_one_line(
    args: list[str], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(folder.parent)
    assert average.main([*args, "--output", "averaged.pt"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("average: error: ") and message in told and told.count("\n") == 1
