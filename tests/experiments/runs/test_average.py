"""scripts/average.py: the mean of real checkpoints, which fairseq-generate reads; and what it refuses."""

from __future__ import annotations

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
from support.checkpoints import Payload
from support.checkpoints import checkpoint as load
from support.cli import fairseq, make_data, run, train_flags
from support.paths import SCRIPTS

pytestmark = pytest.mark.xdist_group("average")  # one training run serves all of this file


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


def test_the_last_by_updates(folder: Path) -> None:
    """At the end of an epoch there is no checkpoint_E_U.pt; checkpoint_last.pt stands in where it is the newest."""
    by_updates = sorted(updates(path) for path in folder.glob("checkpoint_*_*.pt"))
    assert len(by_updates) < by_updates[-1] == 9
    assert [updates(path) for path in average.select(folder, "last", 3)] == by_updates[-3:]
    next(folder.glob("checkpoint_*_9.pt")).unlink()
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
    done = run(sys.executable, SCRIPTS / "average.py", folder, "--last", 3, "--output", tmp_path / "averaged.pt")
    assert re.search(r"\(3 of 3\)\naverage: written to .*averaged.pt\n$", done.stdout) and done.stderr == ""
    where = ("--path", tmp_path / "averaged.pt", "--results-path", tmp_path, "--gen-subset", "test", "--beam", "2")
    fairseq("generate", trained[0], *where, "--cpu", "-s", "xx", "-t", "yy")
    assert len(generated.read_generated(tmp_path / "generate-test.txt", 12)) == 12


NAME = "decoder.layers.0.fc1.bias"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda state: state["model"].update({NAME: torch.zeros(3)}), rf"{NAME} is \(\(3,\), .*, but \(\(128,\), .*"),
        (lambda state: state["model"].pop(NAME), f"{NAME} is not there, but "),
        (lambda state: state.update(epoch=Payload()), r"it holds (posix|os)\.system, which"),
        (lambda data: data[: len(data) // 2], "half a file, or no checkpoint"),
        (lambda data: data[:1000] + bytes(64) + data[1064:], "half a file, or no checkpoint"),
    ],
)
def test_what_is_refused(how: Callable[[Any], Any], message: str, folder: Path, monkeypatch: Any) -> None:
    """In one line; nothing is written, and no code runs, whatever torch is told."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    paths = average.select(folder, "last", 2)
    if message.startswith("half"):
        paths[1].write_bytes(how(paths[1].read_bytes()))
    else:
        change(paths[1], how)
    with pytest.raises(UsageError, match=rf"{paths[1].name}: {message}") as caught:
        average.average(paths, folder / "averaged.pt")
    assert "\n" not in str(caught.value) and not list(folder.glob("averaged.pt*")) and not Path("canary").exists()


def test_files_that_cannot_be(folder: Path) -> None:
    one, other = average.select(folder, "last", 2)
    before = other.read_bytes()
    for paths, target, message in (
        ([one, folder / "none.pt"], "averaged.pt", "No such file"),
        ([one, folder / ".." / folder.name / one.name], "averaged.pt", "is named twice"),
        ([one, other], other.name, "is one of the checkpoints"),
    ):
        with pytest.raises((UsageError, FileNotFoundError), match=message):
            average.average(paths, folder / target)
    assert not (folder / "averaged.pt").exists() and other.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run"], "is a folder: give --last"),
        (["run", "run", "--last", "2"], "take one folder"),
        (["none", "--last", "2"], "none: no such folder"),
        (["run", "--last", "12"], "by updates (checkpoint_EPOCH_UPDATES.pt), 12 are needed; --keep-interval-updates"),
        (
            ["run", "--best", "4"],
            "run: 3 checkpoints that were the best (checkpoint.best_METRIC_VALUE.pt), 4 are needed",
        ),
    ],
)
def test_command_fails_in_one_line(
    args: list[str], message: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(folder.parent)
    assert average.main([*args, "--output", "averaged.pt"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("average: error: ") and message in told and told.count("\n") == 1
