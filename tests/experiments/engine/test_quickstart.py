"""The quick start: its two rows, what it refuses, and for real: killed, started again, summed up."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from experiments.engine import quickstart
from experiments.engine.plan import Row
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import find_table
from experiments.runs import checkpoints
from experiments.system import logs
from support.paths import ROOT, SCRIPTS
from support.recipes import write_table

SMALL = """\
data: {name: toy, prepare: data-prep/prepare_toy.sh, source: de, target: en,
       options: [--train, 150, --valid, 20, --test, 16, --bpe, 60]}
metric: sacrebleu
threads: 1
hardware: cpu
expect_minutes: 0.2
train:
  num_workers: 0
  criterion: label_smoothed_cross_entropy
  share_all_embeddings: true
  optimizer: adam
  lr: [0.001]
  max_tokens: 150
  max_update: 120
  disable_validation: true
  save_interval_updates: 10
  keep_interval_updates: 1
  no_epoch_checkpoints: true
  log_interval: 5
generate:
  num_workers: 0
  beam: 2
  max_len_b: 10
"""
TABLE = """\
small: base/small.yaml
baseline: transformer
rows:
  transformer:
    label: Transformer
    architecture: transformer_localattn_tiny
    small: {architecture: transformer_localattn_tiny}
  mma: {label: MMA, architecture: transformer_mma_tiny, small: {architecture: transformer_mma_tiny}}
"""
ARCHITECTURES = ("transformer_mma_tiny", "transformer_localattn_tiny")


def rows(data: str, architecture: str) -> tuple[Row, Row]:
    """Return the rows of a quick start."""
    system, plain = quickstart.two_rows(find_table("quickstart", data), quickstart.sized(architecture))
    return system, plain


# --- its rows


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
    trees = baseline == "transformer_en_de"
    assert (system.stated.flag("train", "task") == "translation_with_phrases") == trees
    assert ("--trees" in system.stated.corpus.options) == trees
    assert system.stated.corpus.source == plain.stated.corpus.source == ("en" if trees else "de")
    assert system.table.baseline(system.name) == (plain.table, plain.name) or not trees
    if not trees:
        assert system.stated.train == plain.stated.train or name == "mma"
    assert "mgsa_tags" in system.stated.train or not trees


def test_the_quick_start_is_a_table_at_small_scale() -> None:
    """Its rows on Multi30k are trained as those of the papers' tables, so that the scores compare."""
    system, plain = rows("multi30k", "transformer_mma")
    table = find_table("mma", "table2")
    for row, name in ((system, "mma"), (plain, "transformer")):
        other = recipe_at(table, name, "small")
        assert row.stated.architecture == other.architecture
        assert {k: e.value for k, e in row.stated.train.items()} == {k: e.value for k, e in other.train.items()}
        assert row.stated.corpus == other.corpus


def test_an_unused_gpu_is_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = rows("toy", "transformer_mma")[0].stated
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    note = quickstart.gpu_note(toy)
    assert note is not None and "CUDA GPU" in note and "trains on the CPU" in note
    assert quickstart.gpu_note(recipe_at(find_table("comparisons", "mechanisms"), "mma", "full")) is None
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert quickstart.gpu_note(toy) is None


def without(command: list[str], *flags: str) -> list[str]:
    """Return a command without these flags' values."""
    return [word for before, word in zip(["", *command], command, strict=False) if before not in flags]


def test_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert quickstart.main(["--dry-run", "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "prepare_toy.sh" in text and text.count("fairseq_cli.generate") == 2
    written = [line for line in text.splitlines() if line.startswith("# scored into ")]
    assert written == [f"# scored into {tmp_path}/out/summary.{kind}" for kind in ("md", "json")]
    variant, plain = (shlex.split(line) for line in text.splitlines() if "fairseq_cli.train" in line)
    assert variant[variant.index("--arch") + 1] == "transformer_mma_small"
    assert plain[plain.index("--arch") + 1] == "transformer_localattn_small"
    paths = ("--arch", "--save-dir", "--log-file")
    assert without(variant, *paths) == without(plain, *paths)
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


# --- what it refuses


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arch", "lstm"], "--arch lstm: no such architecture; there are transformer_alibi, transformer_"),
        (["--data", "multi30k", "--local", "/none/there"], "--local /none/there: no such folder"),
        (["--speed", "9"], "unknown argument '--speed'"),
    ],
)
def test_the_script_refuses_before_the_set_up(options: list[str], message: str) -> None:
    begin = time.monotonic()
    done = subprocess.run([SCRIPTS / "quickstart.sh", *options], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1
    assert time.monotonic() - begin < 5


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
        (["--arch", "transformer_localattn_small"], "--arch transformer_localattn_small: a baseline, trained beside"),
        (["--data", str(ROOT)], f"--data {ROOT}: has no train.de; --source and --target name the languages"),
        (
            ["--data", str(ROOT), "--arch", "transformer_mgsa"],
            "--arch transformer_mgsa: reads trees, and --data FOLDER",
        ),
        (["--source", "fr"], "--source or --target fr: for --data FOLDER; toy has languages of its own"),
    ],
)
def test_mistakes_end_in_one_line(
    options: list[str], message: str, tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    assert quickstart.main(["--dry-run", "--out", str(tmp_path / "out"), *options]) == 2
    error = capfd.readouterr().err
    assert error.startswith(f"quickstart: error: {message}") and error.count("\n") == 1


# --- for real


class QuickStart:
    """`quickstart.py` on a table of tiny models, in a process of its own."""

    def __init__(self, folder: Path, small: str = SMALL) -> None:
        self.out = folder / "out"
        write_table(folder, "own/base/small", small)
        path = write_table(folder, "own/tiny", TABLE)
        command = [SCRIPTS / "quickstart.py", "--arch", ARCHITECTURES[0], "--table", path, "--out", self.out]
        self.command = [sys.executable, *map(str, command)]
        self.env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self.command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def finish(self) -> str:
        """Run it to its end; return what it prints."""
        done = subprocess.run(
            self.command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def checkpoints(self) -> list[Path]:
        return list(self.out.glob("transformer_*/checkpoints/checkpoint_last.pt"))


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of the living processes that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")  # a zombie's is empty
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found


def contents(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return every file with its time and size, but for locks, summaries and the preparation's log."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock" and path.suffix != ".log"]
    logs = folder.glob("transformer_*/*.log")
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_size)
        for path in [*files, *logs] if not path.name.startswith("summary.")
    }  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the processes in /proc")
@pytest.mark.slow
def test_killed_quick_start_continues_and_reports(tmp_path: Path) -> None:
    quick = QuickStart(tmp_path)
    first = quick.start()
    try:
        deadline = time.monotonic() + 200
        while not quick.checkpoints():
            assert first.poll() is None and time.monotonic() < deadline, first.stdout and first.stdout.read()
            time.sleep(0.02)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    deadline = time.monotonic() + 10
    while (left := processes_of(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    killed = quick.checkpoints()[0].parent.parent
    assert not (killed / "trained.json").exists(), "killed too late: the test needs more updates"
    checkpoints.mend_last_checkpoint(killed / "checkpoints")  # as the runner will: a kill may have cut off the copy
    begun = checkpoints.checkpoint_updates(killed)
    assert begun >= 10
    size = (killed / "train.json.log").stat().st_size

    text = quick.finish()
    name = "mma" if killed.name.startswith(ARCHITECTURES[0]) else "transformer"
    assert f"{name} (seed 1): continues from update {begun} of 120" in text
    assert min(logs.train_log(killed, size)) > begun
    assert f"@ {begun} updates" in (killed / "train.log").read_text()
    check_summary(json.loads((quick.out / "summary.json").read_text()), quick)
    assert text.count("trained and decoded") == 2 and "Example 5" in text
    (system,) = quick.out.glob(f"{ARCHITECTURES[0]}.*")
    assert (system / "summary.md").read_text() == (quick.out / "summary.md").read_text() in text

    before, summary = contents(quick.out), (quick.out / "summary.json").read_bytes()
    text = quick.finish()
    assert text.count("already finished") == 2 and "Example 5" in text and "trained and decoded" not in text
    assert contents(quick.out) == before and (quick.out / "summary.json").read_bytes() == summary


def check_summary(facts: dict[str, Any], quick: QuickStart) -> None:
    assert [system["architecture"] for system in facts["systems"]] == list(ARCHITECTURES)
    for system in facts["systems"]:
        assert system["updates"] == 120 and system["words_per_second"] > 0 and system["train_minutes"] > 0
        assert 0 <= system["bleu"] <= 100 and system["signature"].startswith("nrefs:1|case:mixed")
    variant, plain = facts["systems"]
    assert 0 < variant["p_value"] <= 1 and plain["p_value"] is None
    assert facts["sentences"] == 16
    sources = next((quick.out / "data").glob("toy.*/raw/test.de")).read_text(encoding="utf-8").splitlines()
    assert len({example["source"] for example in facts["examples"]} & set(sources)) == 5
    assert all(set(example) == {"source", "reference", *ARCHITECTURES} for example in facts["examples"])


# --- interpreters and environments


@pytest.mark.parametrize("name", ["table.py", "quickstart.py", "score.py"])
def test_an_interpreter_without_the_dependencies(name: str) -> None:
    """-S hides the environment's packages."""
    done = subprocess.run([sys.executable, "-S", SCRIPTS / name], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith(f"{name[:-3]}: error: {sys.executable} lacks torch, fairseq, scipy, ")
    assert f"run scripts/setup.sh, then .venv/bin/python scripts/{name}" in done.stderr


@pytest.mark.parametrize(("given", "expected"), [("", ".venv"), ("envs/a", "envs/a"), ("/envs/a", "/envs/a")])
def test_shell_scripts_find_the_environment(given: str, expected: str, tmp_path: Path) -> None:
    """A relative LOCALATTN_VENV is that of setup.sh: from the repository's root, from wherever a script is started."""
    command = ["bash", "-c", f". {shlex.quote(str(SCRIPTS / 'lib.sh'))}; echo $PY"]
    env = {**os.environ, "LOCALATTN_VENV": given}
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"{ROOT.resolve() / expected}/bin/python\n"
