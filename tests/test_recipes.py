"""Recipes and runners: every YAML is what fairseq's own parser takes, runs resume, rows come once."""

from __future__ import annotations

import csv
import json
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import compare  # noqa: E402
import jobs  # noqa: E402
import progress  # noqa: E402
import quickstart  # noqa: E402
import recipe  # noqa: E402
import results  # noqa: E402
import runs  # noqa: E402
import schedule  # noqa: E402
import score  # noqa: E402

RECIPES = sorted((ROOT / "configs").rglob("*.yaml"))
ARCH = "transformer_localattn_tiny"
BASE = """\
data: {name: none, prepare: data-prep/prepare_toy.sh, source: de, target: en}
architectures: [transformer_mma_small]
train:
  cpu: true
  criterion: label_smoothed_cross_entropy
  label_smoothing: 0.1
  optimizer: adam
  adam_betas: [0.9, 0.98]
  lr: [0.001, 0.002]
  max_tokens: 600
  max_update: 3
  share_all_embeddings: true
  no_epoch_checkpoints: false
generate:
  beam: 5
"""


@pytest.fixture(autouse=True)
def keep_logging():
    """The runners silence fairseq in their process, which must not silence the other tests."""
    yield
    logging.disable(logging.NOTSET)


def write(folder: Path, text: str, name: str = "r.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def with_flag(flag: str, section: str = "train") -> str:
    """BASE with another flag, which then stands on line 4 (train) or 15 (generate)."""
    return BASE.replace(f"{section}:\n", f"{section}:\n  {flag}\n")


# --- expansion


@pytest.mark.parametrize("path", RECIPES, ids=[str(path.relative_to(ROOT / "configs")) for path in RECIPES])
def test_every_recipe_expands_to_what_fairseq_accepts(path: Path) -> None:
    loaded = recipe.load_recipe(path)
    archs = loaded.get("architectures") or [loaded.get("architecture", "transformer_mma_small")]
    for arch in archs:
        argv = recipe.expand(loaded, "train", arch=arch)
        assert argv[argv.index("--max-update") + 1] == str(loaded.flag("train", "max_update"))
        assert "--beam" in recipe.expand(loaded, "generate", arch=arch)
    if "data" in loaded.meta:
        assert (ROOT / loaded.get("data")["prepare"]).exists()


def test_there_are_recipes() -> None:
    names = {path.relative_to(ROOT / "configs").as_posix() for path in RECIPES}
    assert {"quickstart/toy.yaml", "compare/multi30k_cpu.yaml", "compare/iwslt14_gpu.yaml"} <= names


def test_values_reach_fairseq(tmp_path: Path) -> None:
    """Parsed by fairseq again, the argv has the recipe's values and the architecture's sizes."""
    from fairseq import options

    argv = recipe.expand(recipe.load_recipe(write(tmp_path, BASE)), "train", arch=ARCH)
    argv = ["DATA", "--user-dir", str(recipe.USER_DIR), "--arch", ARCH, *argv]
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=argv)
    assert (args.lr, args.max_update, args.label_smoothing, args.cpu) == ([0.001, 0.002], 3, 0.1, True)
    assert list(eval(args.adam_betas)) == [0.9, 0.98]
    assert args.share_all_embeddings is True and args.no_epoch_checkpoints is False
    assert (args.encoder_embed_dim, args.decoder_layers) == (64, 2)


@pytest.mark.parametrize(
    ("section", "line", "flag", "message"),
    [
        ("train", 4, "drop_out: 0.1", "no flag 'drop_out' .*did you mean 'dropout'"),
        ("train", 4, "warmup_update: 4", "no flag 'warmup_update'"),
        ("generate", 15, "bean: 5", "fairseq-generate has no flag 'bean' .*did you mean 'beam'"),
        ("train", 4, "encoder_embed_dim: 512", "is a model size: sizes stand in the architecture"),
        ("train", 4, "decoder-layers: 6", "is a model size"),
        ("train", 4, "encoder_attention_heads: 4", "is a model size"),
        ("train", 4, "seed: 3", "seed is set by the runner"),
        ("train", 4, "arch: transformer", "arch is set by the runner"),
        ("train", 4, "dropout: abc", "invalid float value: 'abc'"),
        ("train", 4, "dropout: true", "--dropout needs a value"),
        ("train", 4, "fp16: 3", "--fp16 is a switch"),
        ("train", 4, "lr_scheduler: sometimes", "invalid choice: 'sometimes'"),
        ("train", 5, "cpu: true", "cpu was already given on line 4"),
        ("train", 4, "dropout: ", "dropout has no value"),
    ],
)
def test_wrong_flag_names_file_and_line(section: str, line: int, flag: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, with_flag(flag, section))
    with pytest.raises(recipe.RecipeError, match=message) as caught:
        recipe.expand(recipe.load_recipe(path), section, arch=ARCH)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(caught.value)


def test_flag_of_a_variant_only_with_its_architecture(tmp_path: Path) -> None:
    loaded = recipe.load_recipe(write(tmp_path, with_flag("csan_window: 5")))
    assert "--csan-window" in recipe.expand(loaded, "train", arch="transformer_csan_tiny")
    with pytest.raises(recipe.RecipeError, match="no flag 'csan_window' for transformer_localattn_tiny"):
        recipe.expand(loaded, "train", arch=ARCH)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trian:\n  cpu: true\n", r":1: unknown key 'trian'; did you mean 'train'"),
        ("seeds: 3\ntrain:\n  cpu: true\n", r":1: seeds must be a list"),
        ("threads: true\ntrain:\n  cpu: true\n", r":1: threads must be a whole number"),
        ("data:\n  nmae: x\ntrain:\n  cpu: true\n", r":2: unknown key 'nmae' in data; did you mean 'name'"),
        ("hardware: tpu\ntrain:\n  cpu: true\n", r":1: hardware must be cpu or gpu"),
        ("generate:\n  beam: 5\n", r"the section 'train' is missing"),
        ("train: 3\n", r":1: train must hold flags"),
        ("train:\n  a: [1\n", r":3: not valid YAML"),
        ("- 1\n", r"a recipe is a mapping"),
        ("extends: none.yaml\n", r":1: extends none.yaml, which is not there"),
        ("extends: r.yaml\n", r":1: extends itself"),
    ],
)
def test_wrong_structure_names_file_and_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(recipe.RecipeError, match=message):
        recipe.load_recipe(write(tmp_path, text))


def test_extends_replaces_and_removes(tmp_path: Path) -> None:
    base = write(tmp_path, BASE, "base.yaml")
    child = write(tmp_path, "extends: base.yaml\nseeds: [7]\ntrain:\n  max_update: 9\n  lr: null\n  drop: 1\n")
    loaded = recipe.load_recipe(child)
    assert (loaded.flag("train", "max_update"), loaded.get("seeds"), loaded.name) == (9, [7], "r")
    assert "lr" not in loaded.sections["train"] and loaded.flag("generate", "beam") == 5
    assert loaded.sections["train"]["max_tokens"].where == f"{base}:10"
    with pytest.raises(recipe.RecipeError, match=rf"{child}:6: .* no flag 'drop'"):
        recipe.expand(loaded, "train", arch=ARCH)


def test_yaml_to_args_command(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "yaml_to_args.py"
    path = write(tmp_path, BASE)
    done = subprocess.run([sys.executable, script, path, "--null", "--arch", ARCH], capture_output=True, text=True)
    expected = recipe.expand(recipe.load_recipe(path), "train", arch=ARCH)
    assert (done.returncode, done.stdout.split("\0")[:-1]) == (0, expected)
    path = write(tmp_path, with_flag("encoder_layers: 2"))
    failed = subprocess.run([sys.executable, script, path, "--arch", ARCH], capture_output=True, text=True)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.splitlines()[-1].startswith(f"yaml_to_args: {path}:4: encoder_layers is a model size")


# --- runners: dry run and bad options


def call(main, monkeypatch: pytest.MonkeyPatch, *argv: object) -> int:
    monkeypatch.setattr(sys, "argv", ["command", *map(str, argv)])
    return main()


def commands(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if "fairseq_cli.train" in line]


def without(command: list[str], *flags: str) -> list[str]:
    """A command without these flags' values."""
    return [word for before, word in zip(["", *command], command, strict=False) if before not in flags]


def test_quickstart_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    assert call(quickstart.main, monkeypatch, "--dry-run", "--out", tmp_path / "out") == 0
    text = capsys.readouterr().out
    assert "prepare_toy.sh" in text and text.count("fairseq_cli.generate") == 2
    variant, plain = commands(text)
    assert variant[variant.index("--arch") + 1] == "transformer_mma_small"
    assert plain[plain.index("--arch") + 1] == "transformer_localattn_small"
    paths = ("--arch", "--save-dir", "--log-file")
    assert without(variant, *paths) == without(plain, *paths)
    assert not (tmp_path / "out").exists()


def test_compare_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    path = ROOT / "configs" / "compare" / "multi30k_cpu.yaml"
    options = ["--dry-run", "--seeds", "4,5", "--archs", "transformer_csan_small", "--out", tmp_path / "out"]
    assert call(compare.main, monkeypatch, path, *options, "--results", tmp_path) == 0
    trained = commands(capsys.readouterr().out)
    found = [(line[line.index("--arch") + 1], line[line.index("--seed") + 1]) for line in trained]
    assert found == [
        (arch, seed) for arch in ("transformer_localattn_small", "transformer_csan_small") for seed in "45"
    ]
    assert len({" ".join(without(line, "--arch", "--seed", "--save-dir", "--log-file")) for line in trained}) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--archs", "transformer_nosuch"], "transformer_nosuch: no such architecture; there are .*transformer_mma"),
        (["--archs", "transformer_mma_small,transformer_mma_tiny"], "architectures of different sizes"),
        (["--archs", "transformer_mma_small,transformer_mma_small"], "an architecture is given twice"),
        (["--seeds", "1,a"], "seeds are whole numbers"),
        (["--seeds", "1,1"], "a seed is given twice"),
        (["--jobs", "1000"], "--jobs 1000: with 1 thread"),
        (["--jobs", "0"], "--jobs 0: at least 1"),
        (["--local", "/none/there"], "--local /none/there: no such folder"),
    ],
)
def test_compare_bad_options(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    path = ROOT / "configs" / "compare" / "multi30k_cpu.yaml"
    assert call(compare.main, monkeypatch, path, "--dry-run", "--results", tmp_path, *options) == 2
    error = capfd.readouterr().err
    assert re.search(message, error), error
    assert error.count("\n") == 1 and error.startswith("compare: error: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--arch", "lstm"], "--arch lstm: no such architecture; there are transformer_csan, transformer_mma"),
        (["--data", "wmt"], "--data wmt: no such data set; there are multi30k, toy"),
        (["--data", "multi30k", "--local", "/none/there"], "--local /none/there: no such folder"),
        (["--out"], "--out needs a value"),
        (["--speed", "9"], "unknown argument '--speed'"),
    ],
)
def test_quickstart_refuses_before_the_set_up(options: list[str], message: str) -> None:
    begin = time.monotonic()
    done = subprocess.run([ROOT / "scripts" / "quickstart.sh", *options], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and done.stderr.count("\n") == 1
    assert time.monotonic() - begin < 5


# --- runs


class FakeRun(runs.Run):
    """A run whose two steps are one-line Python programs: what is tested is what goes on around them."""

    train_code = "print('trained'); open('{log}', 'a')"
    generate_code = "import os; os.makedirs('{folder}/generating'); open('{folder}/generating/generate-test.txt', 'w')"

    def train_argv(self) -> list[str]:
        return [sys.executable, "-c", self.train_code.replace("{log}", str(self.folder / "train.json.log"))]

    def generate_argv(self) -> list[str]:
        return [sys.executable, "-c", self.generate_code.replace("{folder}", str(self.folder))]


@pytest.fixture
def loaded(tmp_path: Path) -> recipe.Recipe:
    return recipe.load_recipe(write(tmp_path, BASE))


def fake(loaded: recipe.Recipe, folder: Path, name: str) -> FakeRun:
    return FakeRun(loaded, name, 1, runs.Prepared(folder / "data", "de", "en"), folder / name)


def test_finished_steps_are_skipped(loaded: recipe.Recipe, tmp_path: Path) -> None:
    schedule.run_all([fake(loaded, tmp_path, "a")], 1, progress.Progress())
    run = fake(loaded, tmp_path, "a")
    assert run.done() and run.output.exists() and not (run.folder / "generating").exists()
    log = run.folder / "train.log"
    assert log.read_text() == "trained\n"
    schedule.run_all([run], 1, progress.Progress())
    (run.folder / "generated.json").unlink()
    schedule.run_all([fake(loaded, tmp_path, "a")], 1, progress.Progress())
    assert run.done() and log.read_text() == "trained\n"


def test_a_failing_run_does_not_lose_the_others(loaded: recipe.Recipe, tmp_path: Path) -> None:
    bad = fake(loaded, tmp_path, "bad")
    bad.train_code = "raise SystemExit('out of luck')"
    good = [fake(loaded, tmp_path, name) for name in "ab"]
    failed: dict[str, Exception] = {}
    schedule.run_all([bad, *good], 2, progress.Progress(), failed=lambda run, error: failed.update({run.arch: error}))
    assert list(failed) == ["bad"] and all(run.done() for run in good)
    assert "out of luck" in str(failed["bad"]) and str(bad.folder / "train.log") in str(failed["bad"])
    with pytest.raises(jobs.JobFailed, match="exit status 1"):
        bad = fake(loaded, tmp_path, "bad")
        bad.train_code = "raise SystemExit(1)"
        schedule.run_all([bad], 1, progress.Progress())


def test_a_folder_has_one_owner(loaded: recipe.Recipe, tmp_path: Path) -> None:
    run = fake(loaded, tmp_path, "a")
    with jobs.lock(run.folder), pytest.raises(jobs.Busy, match="another run is at work here"):
        run.advance()
    schedule.run_all([run], 1, progress.Progress())


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal at a parent's death is Linux's")
def test_children_die_with_a_killed_runner(tmp_path: Path) -> None:
    code = (
        f"import sys, time; sys.path.insert(0, {str(ROOT / 'scripts')!r}); import jobs; from pathlib import Path\n"
        f"job = jobs.Job(['sleep', '60'], Path({str(tmp_path / 'log')!r}), threads=1)\n"
        "print(job.process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    for _ in range(50):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child outlived its runner")


def write_checkpoint(path: Path, text: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", text * 1000)


def test_half_a_last_checkpoint_is_mended(tmp_path: Path) -> None:
    for number, name in enumerate(("checkpoint_1_100.pt", "checkpoint_1_200.pt", "checkpoint_last.pt")):
        write_checkpoint(tmp_path / name, str(number))
        os.utime(tmp_path / name, (number, number))
    last = tmp_path / "checkpoint_last.pt"
    whole = last.read_bytes()
    runs.mend_last_checkpoint(tmp_path)
    assert last.read_bytes() == whole
    last.write_bytes(whole[:200])
    runs.mend_last_checkpoint(tmp_path)
    assert last.read_bytes() == (tmp_path / "checkpoint_1_200.pt").read_bytes()
    for path in tmp_path.glob("*.pt"):
        path.write_bytes(b"cut")
    runs.mend_last_checkpoint(tmp_path)
    assert not last.exists()


def test_settings_hash(tmp_path: Path) -> None:
    base = recipe.load_recipe(write(tmp_path, BASE))
    slower = recipe.load_recipe(write(tmp_path, with_flag("log_interval: 7"), "a.yaml"))
    other = recipe.load_recipe(write(tmp_path, with_flag("dropout: 0.2"), "b.yaml"))
    known = runs.settings_hash(base, "data")
    assert known == runs.settings_hash(slower, "data")
    assert len({known, runs.settings_hash(other, "data"), runs.settings_hash(base, "new")}) == 3


def test_facts_of_an_interrupted_training(tmp_path: Path) -> None:
    def line(updates: int, wps: float) -> str:
        return json.dumps({"num_updates": str(updates), "wps": str(wps), "wpb": "100", "wall": str(updates)})

    lines = [line(10, 50), line(20, 1), line(20, 100), line(30, 100)]  # 20 was done again after a kill
    lines += [json.dumps({"train_num_updates": "30", "train_wall": "0"})]
    (tmp_path / "train.json.log").write_text("\n".join(lines))
    (tmp_path / "train.log").write_text("x | num. shared model params: 1,234 (num. trained: 1,234)\n")
    facts = runs.training_facts(tmp_path)
    assert facts == {"updates": 30, "parameters": 1234, "words_per_second": 75, "train_minutes": 0.67}


# --- results and progress


def row(seed: int, bleu: str = "30.00") -> dict[str, str]:
    return {**dict.fromkeys(results.COLUMNS, "x"), "seed": str(seed), "bleu": bleu}


def test_a_row_never_comes_twice(tmp_path: Path) -> None:
    table = results.Table(tmp_path / "r" / "t.csv")
    assert table.rows() == []
    threads = [threading.Thread(target=table.append, args=(row(n % 4),)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found["seed"] for found in table.rows()) == list("0123")
    assert table.append(row(1, "99.00")) is False and table.append(row(9)) is True
    text = table.path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == ",".join(results.COLUMNS) and "99.00" not in text
    assert [path.name for path in table.path.parent.iterdir()] == ["t.csv"]


def test_a_foreign_csv_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n1,2\n", "t.csv")
    with pytest.raises(score.ScoreError, match=r"t\.csv:1: other columns"):
        results.Table(path).append(row(1))
    assert path.read_text() == "a,b\n1,2\n"


def test_committed_results_have_the_columns() -> None:
    for path in (ROOT / "results").glob("*.csv"):
        found = results.Table(path).rows()
        keys = [tuple(entry[name] for name in results.KEY) for entry in found]
        assert len(set(keys)) == len(keys), path


def test_results_readme_names_every_column() -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in results.COLUMNS)


def test_time_left() -> None:
    assert progress.time_left([10, 4], [5, 1], 2) == 10
    assert progress.time_left([], [3, 3, 3], 2) == 6
    assert progress.time_left([5], [], 1) == 5
    assert (progress.clock(59.6), progress.clock(3723)) == ("1:00", "1:02:03")


# --- the whole way, tiny


@pytest.fixture
def tiny_data(tmp_path: Path) -> runs.Prepared:
    """A copying task whose test set of 13 sentences is no multiple of eight, binarised by fairseq-preprocess."""
    generator = random.Random(1)
    folder = tmp_path / "data"
    for split, size in (("train", 60), ("valid", 8), ("test", 13)):
        lines = [" ".join(generator.choices("abcdef", k=generator.randint(4, 9))) for _ in range(size)]
        for kind in ("raw", "tok"):
            (folder / kind).mkdir(parents=True, exist_ok=True)
            for language in ("de", "en"):
                (folder / kind / f"{split}.{language}").write_text("\n".join(lines) + "\n")
    prefixes = [f"--{split}pref={folder / 'tok' / split}" for split in ("train", "valid", "test")]
    command = ["-s", "de", "-t", "en", "--joined-dictionary", "--destdir", str(folder / "bin"), *prefixes]
    subprocess.run([sys.executable, "-m", "fairseq_cli.preprocess", *command], check=True, capture_output=True)
    return runs.Prepared(folder, "de", "en")


def test_train_decode_score_and_row(
    tmp_path: Path, tiny_data: runs.Prepared, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    """compare.py from data to CSV, then again: nothing is trained twice, and no row comes twice."""
    text = BASE.replace("lr: [0.001, 0.002]", "lr: [0.001]").replace("false\n", "true\n  log_interval: 1\n")
    path = write(
        tmp_path, text.replace("beam: 5", "beam: 2\n  cpu: true").replace("train:\n", "train:\n  num_workers: 0\n")
    )
    shutil.move(tiny_data.folder, tmp_path / "out" / "data")
    monkeypatch.setattr(compare, "prepare", lambda *args, **kwargs: None)
    options = [
        path,
        "--archs",
        "transformer_mma_tiny",
        "--seeds",
        "3",
        "--out",
        tmp_path / "out",
        "--results",
        tmp_path,
    ]
    assert call(compare.main, monkeypatch, *options) == 0, capfd.readouterr()
    with open(tmp_path / "r.csv", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [entry["arch"] for entry in rows] == ["transformer_localattn_tiny", "transformer_mma_tiny"]
    assert [entry["p_value"] == "" for entry in rows] == [True, False]
    for entry in rows:
        assert entry["updates"] == "3" and int(entry["parameters"]) > 10_000 and int(entry["words_per_second"]) > 0
    assert rows[0]["parameters"] == rows[1]["parameters"]
    before = (tmp_path / "r.csv").read_bytes()
    (logs := list((tmp_path / "out").glob("*/train.log"))).sort()
    sizes = [log.stat().st_size for log in logs]
    assert call(compare.main, monkeypatch, *options) == 0
    assert (tmp_path / "r.csv").read_bytes() == before and [log.stat().st_size for log in logs] == sizes
    assert "0 of 2 runs to do" in capfd.readouterr().out
