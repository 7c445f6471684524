"""A paper with two small tables, whose trainings are one-liners unless a test wants them real."""

from __future__ import annotations

import csv
import random
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.data.preparation import Corpus, prepared
from experiments.engine import table
from experiments.measure.measures import Locality, Probing
from experiments.recipes import tables
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import Table
from experiments.runs import schedule
from experiments.runs.run import Run
from support.recipes import write_table

TOY = ["--train", "120", "--valid", "12", "--test", "12", "--bpe", "100"]
FULL = f"""\
metric: tokenised_bleu
gpus: 2
average: {{last: 2}}
data: {{name: toy, prepare: data-prep/prepare_toy.sh, options: [{", ".join(TOY)}], source: de, target: en}}
train: {{
  task: translation, criterion: label_smoothed_cross_entropy, label_smoothing: 0.1, share_all_embeddings: true,
  dropout: 0.0, optimizer: adam, lr: [0.002], lr_scheduler: inverse_sqrt, warmup_updates: 2, max_update: 4,
  max_tokens: 300, update_freq: [2], num_workers: 0, log_interval: 1, save_interval_updates: 2,
  keep_interval_updates: 2, no_epoch_checkpoints: true }}
generate: {{beam: 2, num_workers: 0}}
"""
SMALL = """\
extends: full.yaml
metric: sacrebleu
seeds: [1, 2]
hardware: cpu
gpus: 1
average: null
train: {update_freq: [1]}
"""
TABLE_1 = """\
# Table 1 of Cui et al. 2019: translation.
extends: base/full.yaml
small: base/small.yaml
baseline: plain
rows:
  plain:
    label: Transformer
    architecture: transformer_localattn_tiny
    small: {architecture: transformer_localattn_tiny}
    paper: {tokenised_bleu: 30.0, steps_per_second: 1.28}
  mma:
    label: MMA
    architecture: transformer_mma_tiny
    small: {architecture: transformer_mma_tiny}
    paper: {tokenised_bleu: 31.0}
"""
TABLE_2 = """\
# Table 2 of Cui et al. 2019: windows.
baseline: table1/plain
rows:
  all: {same_as: table1/mma, label: the same training}
  window: {same_as: table1/mma, label: w = 2, train: {mma_window: 2}}
"""

CHECKPOINTS = ("checkpoint_1_2.pt", "checkpoint_2_4.pt", "checkpoint_best.pt", "checkpoint_last.pt")
TRAIN = f"""
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
(folder / 'checkpoints').mkdir(exist_ok=True)
for name in {CHECKPOINTS}:
    zipfile.ZipFile(folder / 'checkpoints' / name, 'w').close()
(folder / 'trainings').open('a').write('once\\n')
"""
AVERAGE = "import sys, zipfile; zipfile.ZipFile(sys.argv[1], 'w').close()"
GENERATE = """
import pathlib, sys
out, tokens, worse, subset = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3] == 'True', sys.argv[4]
lines = open(tokens, encoding='utf-8').read().split('\\n')[:-1]
hypotheses = [' '.join(line.split()[:-2]) if worse else line for line in lines]
written = [f'S-{n}\\tein Satz\\nH-{n}\\t-0.1\\t{text}' for n, text in enumerate(hypotheses)]
(out / f'generate-{subset}.txt').write_text('\\n'.join(written) + '\\nGenerate test with beam=2: BLEU4 = 1\\n')
"""
LOCATE = """
import pathlib, sys
lines = ['window,layer,kind,share', '1,1,san,70.5', '1,2,san,60']
(pathlib.Path(sys.argv[1]) / 'locality.csv').write_text('\\n'.join(lines) + '\\n')
"""
PROBE = """
import pathlib, sys
work = pathlib.Path(sys.argv[1])
work.mkdir(exist_ok=True)
for folder in (work, pathlib.Path(sys.argv[2])):
    numbers = 'task,low,high,total,majority,accuracy\\nvoice,0,100,9,50,' + sys.argv[3]
    (folder / 'probing.csv').write_text(numbers + '\\n')
"""
WORDS = "the a green old dog house runs sees quickly today".split()


def _python(code: str, *words: object) -> list[str]:
    return [sys.executable, "-c", code, *map(str, words)]


class Bench:
    """The paper mma with TABLE_1 and TABLE_2, under a folder of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.out, self.results = folder, folder / "out", folder / "results"
        self.patch = monkeypatch
        self.write("base/full", FULL)
        self.write("base/small", SMALL)
        self.write("table1", TABLE_1)
        self.write("table2", TABLE_2)
        monkeypatch.setattr(table, "find_table", self.table)

    def write(self, name: str, text: str) -> Path:
        """Write configs/mma/NAME.yaml."""
        return write_table(self.root, f"mma/{name}", text)

    def table(self, paper: str, name: str) -> Table:
        return tables.find_table(paper, name, self.root / "configs")

    def fake(self) -> None:
        """Train and decode without fairseq: the plain Transformer's translations lack their ends."""

        def measure(run: Run, subset: str = "test") -> list[str]:
            to = run.folder / "generating"
            if run.measure.step == Locality.step:
                return _python(LOCATE, to)
            if isinstance(run.measure, Probing):
                count = len((run.trees / "train.mrg").read_text().split()) if run.trees else 0
                return _python(PROBE, run.measure.work(run), to, count)
            return _python(GENERATE, to, run.data.folder / "tok" / f"{subset}.en", "localattn" in run.arch, subset)

        self.patch.setattr(Run, "train_argv", lambda run: _python(TRAIN, run.folder))
        self.patch.setattr(Run, "average_argv", lambda run: _python(AVERAGE, run.model))
        self.patch.setattr(Run, "measure_argv", measure)
        prepare = Corpus.prepare
        self.patch.setattr(Corpus, "prepare", lambda of, *rest: None if of.data.bin.is_dir() else prepare(of, *rest))
        self.patch.setattr(schedule, "time", SimpleNamespace(sleep=lambda seconds: time.sleep(seconds / 20)))

    def fail(self, what: str, patch: pytest.MonkeyPatch) -> None:
        """Let the trainings of the architectures that contain ``what`` fail, as long as the patch lasts."""
        train = Run.train_argv
        fails = _python("raise SystemExit('out of memory')")
        patch.setattr(Run, "train_argv", lambda run: fails if what in run.arch else train(run))

    def data(self, prepared_corpus: Path | None = None) -> None:
        """Put a corpus where the rows expect it: one that is prepared, or a few lines, enough for fake trainings."""
        folder = prepared(recipe_at(self.table("mma", "table1"), "plain", "full"), self.out).folder
        if prepared_corpus is not None:
            shutil.copytree(prepared_corpus, folder)
            return
        words = random.Random(1)
        for part in ("raw", "tok", "bin"):
            (folder / part).mkdir(parents=True)
        lines = "".join(" ".join(words.choices(WORDS, k=words.randint(5, 9))) + "\n" for _ in range(12))
        for path in ("raw/test.de", "raw/test.en", "tok/test.de", "tok/test.en", "bin/dict.de.txt"):
            (folder / path).write_text(lines)

    def run(self, name: str, *options: object) -> int:
        """Run table.py on a table of the paper, on the CPU; return its exit status."""
        where = ("--out", self.out, "--results", self.results)
        return table.main(["mma", name, "--cpu", *map(str, (*where, *options))])

    def lines(self, name: str, scale: str = "full") -> list[dict[str, str]]:
        with open(self.results / "mma" / f"{name}.csv", newline="") as stream:
            return [line for line in csv.DictReader(stream) if line["scale"] == scale]

    def scores(self, name: str, metric: str = "tokenised_bleu", **wanted: str) -> dict[str, dict[str, str]]:
        """Return row → its line of a metric, of the lines with these values."""
        found = [line for line in self.lines(name, wanted.pop("scale", "full")) if line["metric"] == metric]
        return {line["row"]: line for line in found if wanted.items() <= line.items()}

    def trainings(self) -> int:
        return sum(path.read_text().count("once") for path in self.out.rglob("trainings"))

    def folder(self, architecture: str) -> Path:
        """Return the folder of the only run of an architecture."""
        (found,) = self.out.glob(f"{architecture}.*.seed1")
        return found
