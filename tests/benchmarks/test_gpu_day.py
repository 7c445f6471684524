"""The day on one GPU: its steps, stops and second calls, refusals, the packed folder, and its page."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import tarfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from benchmarks import command as tables
from benchmarks.gpu_day import command, course, machine, pack, page, plan
from benchmarks.gpu_day.course import Step
from benchmarks.gpu_day.goals import goal_of
from experiments.data.preparation import Corpus
from experiments.engine import table
from experiments.measure.csv_files import csv_text
from experiments.recipes.tables import find_table
from experiments.runs.launch import Launch
from experiments.runs.schedule import run_all
from experiments.system import checkout
from experiments.system.progress import Progress
from support.cli import REPOSITORY, environment


def step(out: Path, name: str, code: str, **more: Any) -> Step:
    """Return a step that is a line of Python."""
    return Step(name, "contract", ("-S", "-c", code), more.pop("minutes", 0.001), out=out, **more)


def carry_out(*steps: Step, minutes: float = math.inf) -> None:
    to_do = [replace(each, deadline=time.monotonic() + 60 * minutes) for each in course.waiting(steps)]
    run_all(to_do, [Launch()], Progress())


def test_what_is_done_is_skipped_and_what_failed_comes_last(tmp_path: Path) -> None:
    note = f"open({str(tmp_path / 'notes')!r}, 'a').write"
    bad = step(tmp_path, "bad", f"{note}('b'); raise SystemExit('bad: error: no luck')")
    good = step(tmp_path, "good", f"{note}('g')")
    carry_out(bad, good)
    assert (tmp_path / "notes").read_text() == "bg"
    assert bad.state().startswith("failed: bad: error: no luck") and good.state().startswith("done in 0:0")
    new = step(tmp_path, "new", f"{note}('n')")
    carry_out(bad, good, new)
    assert (tmp_path / "notes").read_text() == "bgnb", "what failed is tried again, after the rest"
    assert step(tmp_path, "good", f"{note}('other')").state() == "not begun", "another command is another step"


def test_steps_that_do_not_fit_are_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long, short = step(tmp_path, "long", "", minutes=5), step(tmp_path, "short", "")
    carry_out(long, short, minutes=1)
    assert course.waiting((long, short)) == [long], "the next one that fits is taken"
    assert long.state() == "not begun" and "long: left for the next call" in capsys.readouterr().out


def test_what_is_stopped_goes_on_or_waits_for_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that continues begins although it will not end in time; one that hangs has failed."""
    monkeypatch.setattr(course, "LEAST", 0.0)
    there = tmp_path / "there"
    code = (
        f"import pathlib, time; there = pathlib.Path({str(there)!r}); begun = there.exists(); "
        "there.touch(); time.sleep(0 if begun else 60)"
    )
    going_on = step(tmp_path, "trainings", code, minutes=10, continues=True)
    carry_out(going_on, minutes=0.03)
    assert there.exists() and going_on.state().startswith("stopped after 0:0")
    carry_out(going_on)
    assert going_on.state().startswith("done")
    slow = step(tmp_path, "slow", "import time; time.sleep(60)")
    carry_out(slow, minutes=0.02)
    assert slow.state().startswith("stopped") and not replace(slow, deadline=time.monotonic() + 1.2).fits()
    monkeypatch.setattr(course, "LONGEST", 0.5)
    hanging, later = step(tmp_path, "hanging", "import time; time.sleep(60)"), step(tmp_path, "next", "")
    carry_out(hanging, later)
    assert "should not take as long" in hanging.state() and later.state().startswith("done")


@pytest.mark.parametrize("size", plan.SIZES)
def test_the_commands_of_all_steps_are_understood(size: str, tmp_path: Path) -> None:
    steps = plan.steps("cuda", size, tmp_path, tmp_path / "work")
    assert len({each.name for each in steps}) == len(steps)
    assert {each.stage for each in steps} == set(plan.STAGES)
    parts = []
    for each in steps:
        assert each.continues or 60 * each.minutes < course.LONGEST
        if each.argv[0].endswith("run.py"):
            args = tables.make_parser().parse_args(each.argv[1:])
            where = tmp_path / "results" / "benchmarks"
            assert args.out == where / (f"{each.stage}_{args.tokens}" if args.optimizer != "adam" else "")
            parts.append((args.parts, args.precision, args.tokens))
        elif each.argv[0].endswith("table.py"):
            parsed = table.make_parser().parse_args(list(each.argv[1:]))
            found = find_table(parsed.paper, parsed.table)
            assert set((parsed.rows or "mma").split(",")) <= set(found.rows("full"))
    assert {part for part, *_ in parts} == set(tables.PARTS) - {"start", "inference"}  # of CPUs
    assert [each.stage for each in steps][:2] == ["launches", "optimizer"]
    if size == "base":
        assert {("step", "bf16", 4096), ("step", "bf16", 32_768), ("training", "bf16", 32_768)} <= set(parts)
    names = {each.name for each in steps}
    assert {"contract_fp32", "contract_bf16", "contract_fp16"} <= names


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "give the folder of the results"),
        ("OUT --device cpu", "only with --size tiny"),
        ("OUT --device cpu --size tiny --from .", "--from .: is no folder of --pack"),
        ("OUT", "sees no GPU; --device cpu --size tiny"),
        ("OUT --pack PACKED", "only makes that folder: leave out"),
        ("--pack .", "is no folder of an earlier --pack"),
    ],
)
def test_mistakes_are_told_in_one_line(
    words: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(machine, "run", lambda *_: "")  # nothing is installed or imported
    monkeypatch.chdir(tmp_path)
    (tmp_path / "something").touch()
    assert command.main(words.replace("OUT", "out").replace("PACKED", "packed").split()) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("gpu_day: error: ") and printed.err.count("\n") == 1 and said in printed.err
    assert not (tmp_path / "packed").exists()


@pytest.mark.slow
def test_status_and_page_tell_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "run", lambda *_: "")
    steps = [step(tmp_path / "out", "one", ""), step(tmp_path / "out", "long", "", minutes=5)]
    monkeypatch.setattr(command, "steps", lambda *_: steps)
    call = [str(tmp_path / "out"), "--device", "cpu", "--size", "tiny"]
    assert command.main([*call, "--minutes", "2"]) == command.LEFT
    assert "left for the next call: long" in capsys.readouterr().out
    assert command.main([*call, "--list"]) == 0
    assert "# not begun, some 5 min on an H200\npython -S -c" in capsys.readouterr().out
    assert command.main(call) == 0
    assert "| long | done in 0:0" in (tmp_path / "out" / page.PAGE).read_text()
    steps.append(step(tmp_path / "out", "bad", "raise SystemExit(3)"))
    assert command.main(call) == command.FAILED
    assert "gpu_day: failed: bad: see " in capsys.readouterr().err


def make_packed(folder: Path) -> Path:
    """Write a packed folder whose packages are empty."""
    (folder / machine.WHEELS).mkdir(parents=True)
    for name in (*machine.PACKED, *machine.BUILDERS):
        with zipfile.ZipFile(folder / machine.WHEELS / f"{name.replace('-', '_')}-1-py3-none-any.whl", "w"):
            pass
    text = folder / machine.DATA / "iwslt14.0123" / "bin"
    text.mkdir(parents=True)
    (text / "dict.de.txt").write_text("a 1\n")
    (folder / machine.COMMIT).write_text(f"abc {checkout.package()}\n")
    return folder


def test_what_is_missing_comes_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Mock(return_value="")
    monkeypatch.setattr(machine, "run", run)
    monkeypatch.setattr(machine, "lacking", lambda modules: [name for name in ("antlr4", "fairseq") if name in modules])
    monkeypatch.setattr(machine, "has_package", lambda: False)
    monkeypatch.setenv("CUDA_HOME", "/usr/local/cuda")
    log = tmp_path / "log"
    with pytest.raises(machine.CourseError, match="lacks antlr4, fairseq: run scripts/setup.sh, or without network"):
        machine.make_ready(None, "cpu", log)
    machine.make_ready(make_packed(tmp_path / "packed"), "cpu", log)
    install, own, check = (call.args[0] for call in run.call_args_list)
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(install) & set(own)
    files = [Path(word).name for word in install if word.endswith(".whl")]
    assert files == ["fairseq_fixed-1-py3-none-any.whl", "antlr4_python3_runtime-1-py3-none-any.whl"]
    assert own[-2:] == ["--editable", str(REPOSITORY)] and "import torch, fairseq" in check[-1]
    for call in run.call_args_list[:2]:
        assert "CUDA_HOME" not in call.args[2] and call.args[2]["CFLAGS"] == "-O1 -g0"
    run.return_value = None
    with pytest.raises(machine.CourseError, match="pip install from .* failed: see the end of "):
        machine.make_ready(tmp_path / "packed", "cpu", log)


def test_data_and_commit_come_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = make_packed(tmp_path / "packed")
    for _ in range(2):
        machine.take_data(packed, tmp_path / "trainings")
    assert (tmp_path / "trainings" / "data" / "iwslt14.0123" / "bin" / "dict.de.txt").read_text() == "a 1\n"
    monkeypatch.setenv("LOCALATTN_COMMIT", "")
    monkeypatch.delenv("LOCALATTN_COMMIT")
    monkeypatch.setattr(checkout, "_git", Mock(side_effect=OSError))
    (packed / machine.COMMIT).write_text("abc other\n")
    command.name_commit(packed)
    assert checkout.commit() == "none", "of another package"
    (packed / machine.COMMIT).write_text(f"abc {checkout.package()}\n")
    command.name_commit(packed)
    assert checkout.commit() == "abc"


def test_a_packed_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The packages of constraints.txt, and of the corpus what trainings and scores read."""
    run = Mock(side_effect=lambda argv, log: log.touch() or "")

    def prepare(corpus: Corpus, progress: Progress, after: float) -> None:
        for name in ("bin/train.de-en.de.bin", "bpe/train.de", "tok/test.en", "tok/train.en", "raw/test.en"):
            path = corpus.data.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)

    monkeypatch.setattr(pack, "run", run)
    monkeypatch.setattr(Corpus, "prepare", prepare)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    folder = tmp_path / "packed"
    for _ in range(2):
        assert command.main(["--pack", str(folder), "--local", str(tmp_path), "--python", "3.13"]) == 0
    assert "for Python 3.13" in capsys.readouterr().out
    sources, others = (call.args[0] for call in run.call_args_list[:2])
    assert "fairseq-fixed==0.12.3.1" in sources and "--no-binary" in sources
    assert {"hydra-core==1.3.2", "setuptools<82", "3.13"} <= set(others) and "--only-binary" in others
    (corpus,) = (folder / machine.DATA).iterdir()
    found = sorted(str(path.relative_to(corpus)) for path in corpus.rglob("*") if path.is_file())
    assert found == ["bin/train.de-en.de.bin", "raw/test.en", "tok/test.en"]
    assert (folder / machine.COMMIT).read_text().split()[1] == checkout.package()
    monkeypatch.setattr(pack, "LARGEST", 10)
    assert command.main(["--pack", str(folder), "--local", str(tmp_path)]) == 2
    assert "more than 0" in capsys.readouterr().err


def test_goals_are_those_of_large_models_on_gpus() -> None:
    row = {"system": "mma", "device": "cuda", "size": "base"}
    assert goal_of(row) == 1.15
    for other in ({"device": "cpu"}, {"size": "tiny"}, {"system": "transformer"}):
        assert goal_of({**row, **other}) is None


def test_the_page_shows_goal_and_measured(tmp_path: Path) -> None:
    out = tmp_path / "out"
    rows = [
        {"system": name, "efficiency": found, "ratio_median": found, "ratio_lowest": 0.9, "ratio_highest": 1.3,
         "peak_mib": 900, "device": "cuda", "size": "base", "tokens": 30}
        for name, found in (("transformer", 1), ("mma", 1.2), ("csan_2d", 1.04), ("rope", 0.98))
    ]  # fmt: skip
    folder = out / "results" / "benchmarks"
    (folder / "graphs_4096").mkdir(parents=True)
    for part in ("step", "module", "generation", "graphs_4096/training"):
        text = csv_text([*rows[0], "time_ms", "loss"], [[*row.values(), 20, 4.5] for row in rows])
        (folder / f"{part}_cuda_bf16.csv").write_text(text)
    counted = "system,architecture,operations,share,syncs\nmma,transformer_mma,900,0.235,0\n"
    (folder / "launches_meta_bf16.csv").write_text(counted)
    report = plan.report_of(out, "cuda", "fp32")
    report.parent.mkdir()
    report.write_text('<testsuites><testsuite tests="9" failures="2" errors="1" skipped="1"/></testsuites>')
    written = page.write([step(out, "one", "")], out, "cuda", machine="a GPU")
    text = (out / page.PAGE).read_text()
    for line in (
        "| mma | 1.15 | 1.200 ✓ | 1.200 (0.90 to 1.30) | 900 |",
        "| csan_2d | 1.10 | 1.040 ✗ | 1.040 (0.90 to 1.30) | 900 |",
        "| rope | | 0.980 | 0.980 (0.90 to 1.30) | 900 |",
        "| fp32 | 5 | 3 | 1 |",
        "## module, bf16: times fairseq's speed",
        "## graphs_4096, training, bf16: times fairseq's speed",
        "| mma | 1.20 (0.90 to 1.30) | 20.0 | 4.50 |",
        "| mma | transformer_mma | 900 | 0.235 | 0 |",
        "| one | not begun |",
    ):
        assert line in text
    assert (out / "goals_cuda.png").read_bytes().startswith(b"\x89PNG")
    with tarfile.open(written[-1]) as archive:
        assert {"gpu_day.md", "goals_cuda.png", "results/benchmarks/step_cuda_bf16.csv"} <= set(archive.getnames())


@pytest.mark.slow
def test_a_course_at_tiny_size(tmp_path: Path) -> None:
    """By the script: a step of each stage, in two calls."""
    call = [str(REPOSITORY / "benchmarks" / "gpu_day.sh"), str(tmp_path / "out"), "--device", "cpu", "--size", "tiny"]

    def run(*more: str) -> str:
        done = subprocess.run([*call, *more], env=environment(), capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "step_fp32: done" in run("--stages", "step_fp32,scaling_fp32")
    said = run("--stages", "step_fp32,launches,optimizer_fp32,contract_fp32,trainings")
    assert "step_fp32: starts" not in said and "trainings: done" in said
    out = tmp_path / "out"
    stamps = {path.stem: json.loads(path.read_text()) for path in (out / "steps").glob("*.json")}
    assert len(stamps) == 8 and all("seconds" in stamp for stamp in stamps.values())
    text = (out / page.PAGE).read_text()
    assert "| fp32 | 1 | 0 | 0 |" in text and "## Training step" in text and "| mma | sacrebleu | " in text
    shutil.unpack_archive(out / page.ARCHIVE, tmp_path / "unpacked")
    tables = ("comparisons/mechanisms.csv", "comparisons/iwslt14.csv")
    for name in ("benchmarks/step_cpu_fp32.csv", "benchmarks/scaling_cpu.png", *tables):
        assert (tmp_path / "unpacked" / "results" / name).stat().st_size > 100
