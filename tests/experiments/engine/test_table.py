"""A table's rows from recipe to results: what is trained once, skipped, resumed, filled in; and what is refused."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.engine import rows, table
from support.paths import ROOT
from tests.experiments.recipes.test_recipes import call

PLAIN = """\
label: Transformer
architecture: transformer_localattn_tiny
metric: tokenised_bleu
paper: {tokenised_bleu: 30.0, steps_per_second: 1.28}
gpus: 2
average: {last: 2}
data:
  name: toy
  prepare: data-prep/prepare_toy.sh
  options: [--train, 120, --valid, 12, --test, 12, --bpe, 100]
  source: de
  target: en
train:
  task: translation
  criterion: label_smoothed_cross_entropy
  label_smoothing: 0.1
  share_all_embeddings: true
  dropout: 0.0
  optimizer: adam
  lr: [0.002]
  lr_scheduler: inverse_sqrt
  warmup_updates: 2
  max_update: 4
  max_tokens: 300
  update_freq: [2]
  num_workers: 0
  log_interval: 1
  save_interval_updates: 2
  keep_interval_updates: 2
  no_epoch_checkpoints: true
generate: {beam: 2, num_workers: 0}
"""
MMA = "extends: table1_plain.yaml\nlabel: MMA\narchitecture: transformer_mma_tiny\nbaseline: table1_plain\n"
ROWS = {
    "table1_plain": PLAIN,
    "table1_mma": MMA,
    "table2_all": "extends: table1_mma.yaml\nlabel: the same training\n",
    "table2_window": "extends: table1_mma.yaml\nlabel: w = 2\ntrain: {mma_window: 2}\n",
}

TRAIN = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
(folder / 'checkpoints').mkdir(exist_ok=True)
(folder / 'trainings').open('a').write('once\\n')
print('num. shared model params: 7 (num. trained: 7)')
"""
GENERATE = """
import pathlib, sys
out, tokens, worse = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3] == 'True'
lines = open(tokens, encoding='utf-8').read().split('\\n')[:-1]
hypotheses = [' '.join(line.split()[:-2]) if worse else line for line in lines]
written = [f'S-{n}\\tein Satz\\nH-{n}\\t-0.1\\t{text}' for n, text in enumerate(hypotheses)]
(out / 'generate-test.txt').write_text('\\n'.join(written) + '\\nGenerate test with beam=2: BLEU4 = 1\\n')
"""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy corpus, prepared once."""
    folder = tmp_path_factory.mktemp("prepared") / "toy"
    options = ["--train", "120", "--valid", "12", "--test", "12", "--bpe", "100", "--workers", "1"]
    done = subprocess.run(
        ["bash", ROOT / "data-prep" / "prepare_toy.sh", folder, *options],
        capture_output=True,
        text=True,
        env={"PYTHON": sys.executable, "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr
    return folder


class Bench:
    """A paper with the tables of ROWS, whose programs are one-liners unless `real`."""

    def __init__(self, folder: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.configs, self.out, self.results = folder / "configs" / "mma", folder / "out", folder / "results"
        self.configs.mkdir(parents=True)
        for name, text in ROWS.items():
            (self.configs / f"{name}.yaml").write_text(text)
        monkeypatch.setattr(rows, "CONFIGS", folder / "configs")
        self.patch, self.prepared = monkeypatch, prepared

    def fake(self) -> None:
        """Trains and decodes without fairseq: the plain Transformer's translations lack their ends."""

        def train(run: rows.RowRun) -> list[str]:
            return [sys.executable, "-c", TRAIN, str(run.folder)]

        def average(run: rows.RowRun) -> list[str]:
            return [sys.executable, "-c", "pass"]

        def generate(run: rows.RowRun, subset: str = "test") -> list[str]:
            worse = str("localattn" in run.arch)
            tokens = str(run.data.folder / "tok" / "test.en")
            return [sys.executable, "-c", GENERATE, str(run.folder / "generating"), tokens, worse]

        self.patch.setattr(rows.RowRun, "train_argv", train)
        self.patch.setattr(rows.RowRun, "average_argv", average)
        self.patch.setattr(rows.RowRun, "generate_argv", generate)

    def data(self) -> None:
        """Puts the prepared corpus where the rows expect it."""
        recipe = next(iter(rows.load_rows("mma", "table1", None).values()))
        from experiments.data import preparation as corpus

        folder = corpus.row_data(recipe, self.out).folder
        if not folder.exists():
            shutil.copytree(self.prepared, folder)

    def run(self, name: str, *options: object) -> int:
        where = ("--out", self.out, "--results", self.results)
        return call(table.main, self.patch, "mma", name, "--cpu", *where, *options)

    def lines(self, name: str) -> list[dict[str, str]]:
        with open(self.results / "mma" / f"{name}.csv", newline="") as stream:
            return list(csv.DictReader(stream))

    def trainings(self) -> int:
        return sum(path.read_text().count("once") for path in self.out.rglob("trainings"))


@pytest.fixture
def bench(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, prepared, monkeypatch)


def of_metric(lines: list[dict[str, str]], metric: str) -> dict[str, dict[str, str]]:
    return {line["row"]: line for line in lines if line["metric"] == metric}


def test_rows_are_measured_and_then_kept(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    bench.fake()
    bench.data()
    assert bench.run("table1", "--seeds", "1,2") == 0
    lines = bench.lines("table1")
    found = of_metric([line for line in lines if line["seed"] == "2"], "tokenised_bleu")
    assert float(found["table1_mma"]["score"]) == 100 > float(found["table1_plain"]["score"])
    gain = float(found["table1_mma"]["score"]) - float(found["table1_plain"]["score"])
    assert abs(float(found["table1_mma"]["difference"]) - gain) <= 0.011
    assert float(found["table1_mma"]["p_value"]) < 0.01 and found["table1_plain"]["difference"] == ""
    assert {line["metric"] for line in lines} == {"tokenised_bleu", "sacrebleu"}  # no steps: the log has none
    assert found["table1_mma"]["averaged"] == "last 2" and found["table1_mma"]["batch_tokens"] == "1200"
    assert bench.trainings() == 4
    before = (bench.results / "mma" / "table1.csv").read_bytes()
    capsys.readouterr()
    assert bench.run("table1", "--seeds", "1,2") == 0
    assert "0 of 4 runs to do" in capsys.readouterr().out
    assert bench.trainings() == 4 and (bench.results / "mma" / "table1.csv").read_bytes() == before


def test_one_training_serves_all_tables(bench: Bench) -> None:
    bench.fake()
    bench.data()
    assert bench.run("table2") == 0  # with its baseline, which is a row of another table
    found = of_metric(bench.lines("table2"), "tokenised_bleu")
    assert set(found) == {"table2_all", "table2_window"} and all(line["difference"] for line in found.values())
    assert bench.trainings() == 3
    assert bench.run("table1") == 0
    assert bench.trainings() == 3 and len(of_metric(bench.lines("table1"), "sacrebleu")) == 2


def test_a_difference_is_filled_in_when_the_baseline_is_there(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    bench.fake()
    bench.data()
    assert bench.run("table1", "--rows", "mma") == 0
    assert "table1_plain is not trained: its difference is added when it is" in capsys.readouterr().out
    assert of_metric(bench.lines("table1"), "tokenised_bleu")["table1_mma"]["difference"] == ""
    assert bench.run("table1", "--rows", "table1_plain") == 0
    assert bench.run("table1") == 0
    found = of_metric(bench.lines("table1"), "tokenised_bleu")
    assert float(found["table1_mma"]["difference"]) > 0 and bench.trainings() == 2
    assert len(bench.lines("table1")) == 4  # in place, not beside


def test_what_changes_the_score_alone_is_scored_again(bench: Bench) -> None:
    """Another metric, baseline or case: no new training, and the old lines go."""
    bench.fake()
    bench.data()
    assert bench.run("table1") == 0
    before = of_metric(bench.lines("table1"), "tokenised_bleu")
    mma = bench.configs / "table1_mma.yaml"
    mma.write_text(MMA.replace("baseline: table1_plain\n", ""))
    assert bench.run("table1") == 0
    after = of_metric(bench.lines("table1"), "tokenised_bleu")
    assert before["table1_mma"]["difference"] != "" == after["table1_mma"]["difference"]
    mma.write_text(MMA + "data: {lowercase: true}\n")
    assert bench.run("table1") == 0
    found = of_metric(bench.lines("table1"), "tokenised_bleu")["table1_mma"]
    assert "case:lc" in found["signature"] and found["difference"] != ""
    assert bench.trainings() == 2 and len(bench.lines("table1")) == 4
    mma.write_text(MMA.replace("transformer_mma_tiny", "transformer_csan_tiny"))
    assert bench.run("table1") == 0
    assert of_metric(bench.lines("table1"), "tokenised_bleu")["table1_mma"]["architecture"] == "transformer_csan_tiny"
    assert bench.trainings() == 3


def test_lines_name_the_machine_of_the_training(bench: Bench) -> None:
    bench.fake()
    bench.data()
    assert bench.run("table1", "--rows", "plain") == 0
    stamp = next((bench.out / "mma").glob("*")) / "trained.json"
    facts = json.loads(stamp.read_text())
    facts["machine"] |= {"gpus": 8, "hardware": "another machine", "precision": "fp16", "torch": "1.0"}
    stamp.write_text(json.dumps(facts))
    (bench.results / "mma" / "table1.csv").unlink()
    assert bench.run("table1", "--rows", "plain") == 0
    line = bench.lines("table1")[0]
    assert (line["gpus"], line["hardware"], line["precision"], line["torch"]) == ("8", "another machine", "fp16", "1.0")


def test_a_failing_row_does_not_lose_the_others(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    bench.fake()
    bench.data()
    train = rows.RowRun.train_argv
    fails = [sys.executable, "-c", "raise SystemExit('out of memory')"]
    bench.patch.setattr(rows.RowRun, "train_argv", lambda run: fails if "localattn" in run.arch else train(run))
    assert bench.run("table1") == 1
    error = capsys.readouterr().err
    assert "table: failed: table1_plain" in error and "out of memory" in error
    assert set(of_metric(bench.lines("table1"), "tokenised_bleu")) == {"table1_mma"}


def test_no_resume_keeps_the_old_aside(bench: Bench) -> None:
    bench.fake()
    bench.data()
    run = bench.run
    assert run("table1", "--rows", "mma") == 0
    folder = next((bench.out / "mma").glob("transformer_mma_tiny.*"))
    (folder / "generated.json").unlink()
    (bench.results / "mma" / "table1.csv").unlink()
    assert run("table1", "--rows", "mma", "--no-resume") == 0
    assert (folder.with_name(folder.name + ".aside1") / "trainings").read_text() == "once\n"
    assert (folder / "trainings").read_text() == "once\n"
    (bench.results / "mma" / "table1.csv").unlink()
    assert run("table1", "--rows", "mma", "--resume") == 0 and (folder / "trainings").read_text() == "once\n"


def test_dry_run_shows_each_command_and_does_nothing(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    assert bench.run("table1", "--dry-run", "--gpus", "2") == 0
    text = capsys.readouterr().out
    assert not bench.out.exists() and not bench.results.exists()
    assert text.count("prepare_toy.sh") == 1 and text.count("train_worker.py") == text.count("average.py") == 2
    assert text.count("fairseq_cli.generate") == 2 and "--nproc-per-node 2" in text
    # the batch of two processes is the paper's
    assert text.count("--update-freq '[2]' --max-tokens 300") == 2
    # what is shown can be typed: the same words reach fairseq
    assert re.search(r"--arch transformer_mma_tiny --seed 1 .*--max-update 4", text)


def test_a_folder_that_cannot_be_written(bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    bench.out = tmp_path / "file" / "out"
    (tmp_path / "file").write_text("")
    assert bench.run("table1") == 1
    error = capfd.readouterr().err
    assert "Traceback" not in error and "Not a directory" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["table9"], "mma table9: no such table; mma has table1, table2"),
        (["table1", "--rows", "mna"], r"--rows mna: mma table1 has .*; did you mean 'table1_mma'\?"),
        (["table1", "--seeds", "one"], "--seeds one: seeds are whole numbers"),
        (["table1", "--seeds", "1,1"], "a seed is given twice"),
        (["table1", "--gpus", "0"], "--gpus 0: at least 1"),
        (["table1", "--nodes", "2"], "--nodes needs --rendezvous HOST:PORT"),
        (["table1", "--nodes", "2", "--rendezvous", "a:1", "--node-rank", "2"], "a --node-rank below it"),
        (["table1", "--local", "wmt=/none"], "these rows have no corpus wmt: there are toy"),
    ],
)
def test_mistakes_end_in_one_line(options: list[str], message: str, bench: Bench, capfd: pytest.CaptureFixture) -> None:
    assert bench.run(*options) == 2
    error = capfd.readouterr().err
    assert re.search(message, error), error
    assert error.startswith("table: error: ") and error.count("\n") == 1
    assert not bench.results.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label: x\n", "needs the key 'label'"),
        ("metric: bleu\n", "metric must be one of"),
        ("baseline: table1_none\n", "baseline table1_none: there is no table1_none.yaml"),
        ("average: {last: 0}\n", "average must be"),
        ("gpus: none\n", "gpus must be a whole number"),
        ("data: {tests: [test]}\n", "tests must be a mapping"),
        ("train: {max_update: null, max_epoch: 3}\n", "train needs max_update"),
    ],
)
def test_a_wrong_row_is_named(text: str, message: str, bench: Bench, capfd: pytest.CaptureFixture) -> None:
    base = "extends: table1_plain.yaml\n"
    (bench.configs / "table3_wrong.yaml").write_text(base + ("label: null\n" if text == "label: x\n" else text))
    assert bench.run("table3", "--dry-run") == 2
    error = capfd.readouterr().err
    assert "table3_wrong.yaml" in error and re.search(message, error), error


def test_without_a_gpu_it_says_what_to_do(bench: Bench, capfd: pytest.CaptureFixture) -> None:
    bench.patch.setattr(table, "visible_gpus", lambda: ([], []))
    assert call(table.main, bench.patch, "mma", "table1", "--out", bench.out) == 2
    assert "no GPU is visible: --smoke" in capfd.readouterr().err


def test_lanes_share_the_gpus(bench: Bench, capfd: pytest.CaptureFixture) -> None:
    names = ["4", "5", "6", "7"]
    bench.patch.setattr(table, "visible_gpus", lambda: (names, [(8, 0)] * 4))
    options = ["table", "mma", "table1", "--jobs", "2"]
    bench.patch.setattr(sys, "argv", options)
    found = table.launches(table.parse_args())
    assert [(one.gpus, one.devices, one.precision) for one in found] == [
        (2, ("4", "5"), "bf16"),
        (2, ("6", "7"), "bf16"),
    ]
    assert call(table.main, bench.patch, *options[1:], "--gpus", "3", "--out", bench.out) == 2
    assert "--gpus 3 --jobs 2: only 4 GPUs are visible" in capfd.readouterr().err


@pytest.mark.slow
def test_two_processes_train_as_one(bench: Bench) -> None:
    """With torchrun on two processes the same updates come out as on one, to rounding; then averaged and scored."""
    import torch

    bench.data()
    assert bench.run("table1", "--rows", "mma", "--gpus", "2") == 0
    (line,) = of_metric(bench.lines("table1"), "tokenised_bleu").values()
    assert (line["updates"], line["gpus"], line["batch_tokens"]) == ("4", "0", "1200")
    folder = next((bench.out / "mma").glob("transformer_mma_tiny.*"))
    assert "training on 2 devices" in (folder / "train.log").read_text()
    log = [json.loads(text) for text in (folder / "train.json.log").read_text().splitlines() if '"wps"' in text]
    assert len(log) == 4  # one process has written
    two = torch.load(folder / "averaged.pt", weights_only=False)["model"]
    shutil.move(folder, bench.out / "two")
    (bench.results / "mma" / "table1.csv").unlink()
    assert bench.run("table1", "--rows", "mma") == 0
    one = torch.load(folder / "averaged.pt", weights_only=False)["model"]
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(
            two[name], value, atol=2e-5, rtol=1e-3, msg=lambda text, name=name: f"{name}: {text}"
        )
