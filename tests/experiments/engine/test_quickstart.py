"""The quick start: its two rows, what it refuses, and for real: killed, started again, summed up."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.engine import quickstart
from experiments.engine.plan import Row
from experiments.measure import command as score
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import find_table
from experiments.runs import averaging, checkpoints
from experiments.system import logs
from support.corpora.prep import wait_for_processes
from support.paths import ROOT, SCRIPTS
from support.tables.bench import SMALL, Bench

LONGER = "max_tokens: 150, max_update: 120, save_interval_updates: 10, disable_validation: true"
ARCHITECTURES = ("transformer_mma_tiny", "transformer_localattn_tiny")


def rows(data: str, architecture: str) -> tuple[Row, Row]:
    system, plain = quickstart.two_rows(find_table("quickstart", data), quickstart.sized(architecture))
    return system, plain


@pytest.mark.parametrize(
    ("architecture", "name", "baseline"),
    [
        ("transformer_mgsa", "mgsa", "transformer_en_de"),
        ("transformer_mma", "mma", "transformer"),
        ("transformer_man_iwslt_de_en", "man_iwslt_de_en", "transformer"),
    ],
)
def test_two_rows(architecture: str, name: str, baseline: str) -> None:
    """An architecture that the table lacks has the plain Transformer's flags; both rows have one seed."""
    system, plain = rows("toy", architecture)
    assert (system.name, plain.name) == (name, baseline)
    size = "transformer_iwslt_de_en" if "iwslt" in name else "transformer_localattn_small"
    assert (system.stated.architecture, plain.stated.architecture) == (quickstart.sized(architecture), size)
    assert system.stated.seeds == plain.stated.seeds == (1,)
    assert system.stated.corpus.source == plain.stated.corpus.source
    if baseline == "transformer_en_de":
        assert system.table.baseline(system.name) == (plain.table, plain.name)
        assert "mgsa_tags" in system.stated.train and "--trees" in system.stated.corpus.options
    elif name != "mma":
        assert system.stated.train == plain.stated.train


def test_an_unused_gpu_is_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = rows("toy", "transformer_mma")[0].stated
    of_a_gpu = recipe_at(find_table("mma", "table1"), "en_ja_mma", "full")
    for available, expected in ((True, [True, False]), (False, [False, False])):
        monkeypatch.setattr("torch.cuda.is_available", lambda available=available: available)
        assert ["trains on the CPU" in (quickstart.gpu_note(of) or "") for of in (toy, of_a_gpu)] == expected


def test_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert quickstart.main(["--dry-run", "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "prepare_toy.sh" in text and text.count("fairseq_cli.generate") == 2
    written = [line for line in text.splitlines() if line.startswith("# scored into ")]
    assert written == [f"# scored into {tmp_path}/out/summary.{kind}" for kind in ("md", "json")]
    variant, plain = (shlex.split(line) for line in text.splitlines() if "fairseq_cli.train" in line)
    differ = {before for before, a, b in zip(variant, variant[1:], plain[1:], strict=False) if a != b}
    assert differ == {"--arch", "--save-dir", "--log-file"} and len(variant) == len(plain)
    assert "transformer_mma_small" in variant and "transformer_localattn_small" in plain
    assert not (tmp_path / "out").exists()


def test_text_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A folder of raw text, plain or compressed; what is missing is held out. A given table says how it is trained."""
    for name in ("train.en", "train.fr.gz", "test.fr", "test.en"):
        (tmp_path / name).touch()
    command = ["--dry-run", "--data", str(tmp_path), "--source", "en", "--target", "fr", "--out", str(tmp_path / "out")]
    assert quickstart.main(command) == 0
    prepare, *commands = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    text = f"--train {tmp_path}/train --test {tmp_path}/test"
    assert prepare.endswith(f" --source en --target fr --bpe 4000 {text}") and "prepare_parallel.sh" in prepare
    assert len(commands) == 4 and all(" --source-lang en --target-lang fr " in line for line in commands)
    system, plain = rows("multi30k", "transformer_mma")
    assert all(f" --max-update {plain.stated.flag('train', 'max_update')} " in line for line in commands[::2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arch", "lstm"], "--arch lstm: no such architecture; there are transformer_alibi, transformer_"),
        (["--data", "multi30k", "--local", "/none/there"], "--local /none/there: no such folder"),
        (["--speed", "9"], "unknown argument '--speed'"),
    ],
)
def test_the_script_refuses_before_the_set_up(options: list[str], message: str) -> None:
    done = subprocess.run([SCRIPTS / "quickstart.sh", *options], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_the_script_knows_all_architectures_that_translate() -> None:
    """It reads their names from the sources; with each of them it goes on to the data set, which there is not."""
    from fairseq_localattn.models.architectures import localattn_architectures

    for arch in localattn_architectures("translation"):
        command = [str(SCRIPTS / "quickstart.sh"), "--arch", arch, "--data", "wmt"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert "--data wmt: no such data set" in done.stderr, arch


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arch", "transformer_nosuch"], "--arch transformer_nosuch: no such architecture; there are transformer_"),
        (["--data", "wmt"], "--data wmt: no such data set; there are multi30k, toy"),
        (["--data", "multi30k", "--local", "/none/there"], "--local /none/there: no such folder"),
        (["--arch", "transformer_hybrid"], "--arch transformer_hybrid: without a text it is the Transformer; docs/own"),
        (["--arch", "transformer_localattn"], "--arch transformer_localattn: without a text it is the Transformer; do"),
        (
            ["--table", f"{ROOT}/configs/comparisons/iwslt14.yaml"],
            f"{ROOT}/configs/comparisons/iwslt14.yaml: no row with a baseline at small scale",
        ),
        (["--arch", "transformer_localattn_small"], "--arch transformer_localattn_small: a baseline, trained beside"),
        (["--data", str(ROOT)], f"--data {ROOT}: has no train.de; --source and --target name the languages"),
        (["--data", str(ROOT), "--arch", "transformer_mgsa"], "--arch transformer_mgsa: reads trees, and --data FOL"),
        (["--source", "fr"], "--source or --target fr: for --data FOLDER; toy has languages of its own"),
    ],
)
def test_mistakes_end_in_one_line(options: list[str], message: str, capfd: pytest.CaptureFixture) -> None:
    assert quickstart.main(["--dry-run", *options]) == 2
    error = capfd.readouterr().err
    assert error.startswith(f"quickstart: error: {message}") and error.count("\n") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends the children of a process that is killed")
@pytest.mark.slow
def test_killed_quick_start_continues_and_reports(bench: Bench) -> None:
    bench.write("base/small", SMALL.replace("update_freq: [1]", f"update_freq: [1], {LONGER}"))
    out, places = bench.out, ["--table", f"{bench.root}/configs/mma/table1.yaml", "--out", str(bench.out)]
    command = [sys.executable, f"{SCRIPTS}/quickstart.py", "--arch", ARCHITECTURES[0], *places]

    def finish() -> str:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def saved() -> list[Path]:
        return list(out.glob("transformer_*/checkpoints/checkpoint_last.pt"))

    first = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 200
    try:
        while not saved():
            assert first.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        first.kill()
        first.wait()
    wait_for_processes(0, bench.root, seconds=10)  # a zombie has no command line
    killed = saved()[0].parent.parent
    assert not (killed / "trained.json").exists(), "killed too late: the test needs more updates"
    checkpoints.mend_last_checkpoint(killed / "checkpoints")  # as the runner will: a kill may have cut off the copy
    begun = checkpoints.checkpoint_updates(killed)
    assert begun >= 10
    size = (killed / "train.json.log").stat().st_size

    text = finish()
    name = "mma" if killed.name.startswith(ARCHITECTURES[0]) else "plain"
    assert f"{name} (seed 1): continues from update {begun} of 120" in text
    assert min(logs.train_log(killed, size)) > begun
    assert f"@ {begun} updates" in (killed / "train.log").read_text()
    assert text.count("trained and decoded") == 2 and "Example 5" in text
    summary = (out / "summary.json").read_bytes()
    facts = json.loads(summary)
    variant, plain = facts["systems"]
    assert (variant["architecture"], plain["architecture"]) == ARCHITECTURES
    assert variant["updates"] == plain["updates"] == 120 and plain["words_per_second"] > 0 < plain["train_minutes"]
    assert 0 < variant["p_value"] <= 1 and plain["p_value"] is None and facts["sentences"] == 12
    (system,) = out.glob(f"{ARCHITECTURES[0]}.*")
    assert (system / "summary.md").read_text() == (out / "summary.md").read_text() in text

    files = [path for path in out.glob("transformer_*/**/*") if path.suffix in (".pt", ".json", ".log", ".txt")]
    before = {path: path.stat().st_mtime_ns for path in files if path.stem != "summary"}
    text = finish()
    assert text.count("already finished") == 2 and "Example 5" in text and "trained and decoded" not in text
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (out / "summary.json").read_bytes() == summary


@pytest.mark.parametrize("name", ["table.py", "quickstart.py", "score.py"])
def test_an_interpreter_without_the_dependencies(name: str) -> None:
    """-S hides the environment's packages."""
    done = subprocess.run([sys.executable, "-S", SCRIPTS / name], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith(f"{name[:-3]}: error: {sys.executable} lacks torch, fairseq, scipy, ")
    assert f"run scripts/setup.sh, then .venv/bin/python scripts/{name}" in done.stderr


@pytest.mark.parametrize("main", [averaging.main, quickstart.main, score.main])
def test_an_unknown_option_is_told_in_one_line(main: Any, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["a", "--output", "b", "--nothing"])
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(("given", "expected"), [("", ".venv"), ("envs/a", "envs/a"), ("/envs/a", "/envs/a")])
def test_shell_scripts_find_the_environment(given: str, expected: str, tmp_path: Path) -> None:
    """A relative LOCALATTN_VENV is that of setup.sh: from the repository's root, from wherever a script is started."""
    command = ["bash", "-c", f". {shlex.quote(str(SCRIPTS / 'lib.sh'))}; echo $PY"]
    env = {**os.environ, "LOCALATTN_VENV": given}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"{ROOT.resolve() / expected}/bin/python\n"
