"""One run: a recipe with a seed, trained by fairseq, then measured; it can be stopped and continued."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import sys
import time
from collections.abc import Container
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from experiments.data.prepared import Prepared
from experiments.measure.generated import ScoreError
from experiments.measure.measures import Measure, Probing, measure_of
from experiments.measure.metrics import OF_TRAINING
from experiments.measure.scoring import Measurement
from experiments.recipes.flags import expand
from experiments.recipes.recipe import Recipe
from experiments.recipes.scales import narrow_flags
from experiments.runs.checkpoints import (
    BEST,
    LAST,
    begun,
    mend_last_checkpoint,
    remove_averaged,
    training_facts,
    whole,
)
from experiments.runs.launch import Launch, paper_batch
from experiments.runs.settings import settings_hash
from experiments.runs.steps import AVERAGE, TRAIN, Step
from experiments.system.checkout import CODE, ROOT, USER_DIR, code_of, commit, package
from experiments.system.environment import PACKAGE, hardware, versions
from experiments.system.logs import train_log
from experiments.system.processes import Job, JobFailed, lock, read_stamp, write_stamp

AVERAGER = ROOT / "scripts" / "average.py"
GENERATING = "generating"  # folder of unfinished output, which is moved when it is complete
AVERAGED = "averaged.pt"
MEASURING = 20.0  # seconds that are expected for it
ERRORS = "errors"  # folder in which the processes of a training under torchrun record theirs


@dataclass
class Run:
    """A training, and the measuring of its checkpoint on the test sets.

    ``advance`` is called again and again until it returns True. What is finished is skipped, and a training that was
    killed continues from its last checkpoint. A row of probing from scratch has no training of its own, and one of
    leading sentences no step at all.

    Args:
        recipe: the recipe with the flags of this machine (``Launch.adapt``).
        seed: seed of the training.
        data: the corpus, which need not be prepared yet.
        stated: the recipe without the flags of this machine.
        out: folder of the folders of runs.
        launch: where the training runs.
        trees: folder with the trees of probing.
        narrow: make the model narrow, for a smoke run.
        keep_checkpoints: keep the checkpoints that an average has been made of.
        kept: folder with what BLEU counts in the outputs of finished runs; None: it is not kept.
        rows: rows that the run measures, as PAPER/TABLE/ROW.
    """

    recipe: Recipe
    seed: int
    data: Prepared
    stated: Recipe
    out: Path
    launch: Launch = Launch()
    trees: Path | None = None
    narrow: bool = False
    keep_checkpoints: bool = False
    kept: Path | None = None
    rows: list[str] = field(default_factory=list)
    _settings: str = ""
    _job: Job | None = field(default=None, repr=False)
    _held: IO[str] | None = field(default=None, repr=False)
    _step: Step = TRAIN
    _log_size: int = 0  # bytes of the training log when this process began to train

    @property
    def arch(self) -> str:
        return self.recipe.architecture

    @functools.cached_property
    def options(self) -> str:
        """``settings_hash`` with the name of the data in place of their hash: known before they are prepared."""
        return settings_hash(self.stated, f"{self.data.folder.name} {self.data.source}-{self.data.target}")

    @property
    def settings(self) -> str:
        """``settings_hash`` with what the data hold, by which the results know a run; empty before they are there."""
        if not self._settings and (data := self.data.fingerprint_for(self.stated)):
            self._settings = settings_hash(self.stated, data)
        return self._settings

    def known_as(self, digest: str) -> str:
        return f"{self.arch or self.rows[0].rpartition('/')[2]}.{digest}.seed{self.seed}"

    @property
    def key(self) -> str:
        """What the results and their counts of BLEU call the run."""
        return self.known_as(self.settings)

    @property
    def folder(self) -> Path:
        """Folder with checkpoints, logs and output, named by the options."""
        return self.out / self.known_as(self.options)

    def other_data(self) -> bool:
        """Return whether the folder has a training of other data than those that are prepared now."""
        known = (read_stamp(self.folder / CODE) or {}).get("settings")
        return known is not None and known != self.settings != ""

    @property
    def name(self) -> str:
        """Names of the rows without paper and table, for reading."""
        return ", ".join(dict.fromkeys(row.rpartition("/")[2] for row in self.rows)) or self.arch

    @property
    def label(self) -> str:
        return f"{self.name} (seed {self.seed})"

    @property
    def updates(self) -> int:
        return int(self.recipe.flag("train", "max_update"))

    @property
    def on_cpu(self) -> bool:
        return self.launch.cpu

    @functools.cached_property
    def measure(self) -> Measure:
        return measure_of(self.recipe)

    @property
    def model(self) -> Path:
        """Path of the checkpoint that is measured: an average, the best by validation, or the last."""
        if self.recipe.average:
            return self.folder / AVERAGED
        return self.folder / (BEST if self.recipe.checkpoint == "best" else LAST)

    @property
    def output(self) -> Path:
        """Path of the file that measuring leaves."""
        return self.folder / self.measure.output()

    def encoder_flags(self) -> list[str]:
        """Return the model's flags but those of the decoder, as probing from scratch takes them."""
        from fairseq_localattn.analysis.describe import model_actions, parse  # here, as the import takes seconds

        names = (action.dest for action in model_actions(parse(self.arch, [])[1]))
        own = frozenset(name for name in names if not name.startswith(("decoder", "share")))
        narrow = narrow_flags(self.arch, ("encoder",)) if self.narrow else []
        return [*expand(self.recipe, "train", only=own), *narrow]

    def facts(self) -> dict[str, Any]:
        """Return the facts of the finished training, as ``_trained`` has found them."""
        found = TRAIN.facts(self.folder)
        return {} if found is None or self.other_data() else found

    def done(self) -> bool:
        """Return whether all steps are finished, with the data that are there now."""
        return all(step.facts(self.folder) is not None for step in self.steps()) and not self.other_data()

    def steps(self) -> list[Step]:
        """Return the steps in order."""
        if self.recipe.lead:
            return []
        found = [TRAIN, AVERAGE] if self.recipe.average else [TRAIN]
        name, done = self.measure.step, self.measure.stamp
        for subset in self.recipe.corpus.tests.values():
            of = ("" if subset == "test" else f".{subset}") + self.measure.variant(self)
            doing = f"is measured on {subset}"
            found.append(Step(name, f"{done}{of}.json", f"{name}{of}.log", doing, subset=subset, needs=("output",)))
        return [step for step in found if step.name == Probing.step] if self.recipe.probing == "scratch" else found

    def plan(self) -> str:
        """Return what is still to be done, for reading."""
        if self.recipe.lead:
            return f"{self.label}: nothing to train; scored from the articles as soon as they are prepared"
        if self.done():
            return f"{self.label}: already finished, in {self.folder}"
        if TRAIN not in self.steps():
            return f"{self.label}: no training before it is measured, in {self.folder}"
        done, of = begun(self.folder), self.updates
        if done >= of:
            todo = "trained, to be decoded"
        else:
            todo = f"continues from update {done} of {of}" if done else f"{of} updates"
        if name := self.other_code():
            todo += f" (begun with another fairseq_localattn, commit {name}: the results will name both commits)"
        return f"{self.label}: {todo}, in {self.folder}"

    def announcement(self) -> str:
        """Return the command to start by hand on the other machines; empty where none is needed."""
        by_hand = self.launch.rendezvous and not self.launch.srun and not self.facts()
        return f"on each other machine, in this folder: {shlex.join(self.train_argv())}" if by_hand else ""

    def commit(self) -> str:
        """Return the commit that trained and decoded; 'a..b' where these were several, in order."""
        return "..".join(entry["commit"] for entry in code_of(self.folder))

    def other_code(self) -> str | None:
        """Return the last commit of an unfinished run where its package was not the present one, else None."""
        code = code_of(self.folder)
        return code[-1]["commit"] if code and not self.done() and code[-1]["package"] != package() else None

    def _note_code(self) -> None:
        code, now = code_of(self.folder), {"commit": commit(), "package": package()}
        if code[-1:] != [now]:
            write_stamp(self.folder / CODE, {"code": [*code, now], "settings": self.settings})

    def train_argv(self) -> list[str]:
        """Return the command that trains."""
        return [
            *self.launch.command(self.folder / ERRORS), str(self.data.bin),
            "--user-dir", str(USER_DIR), "--arch", self.arch, "--seed", str(self.seed),
            *self.measure.train_flags(self),
            "--save-dir", str((self.folder / LAST).parent),
            "--log-format", "json", "--log-file", str(self.folder / "train.json.log"),
            *expand(self.recipe, "train"),
            *(narrow_flags(self.arch) if self.narrow else []),
        ]  # fmt: skip

    def average_argv(self) -> list[str]:
        """Return the command that averages checkpoints."""
        ((which, count),) = self.recipe.average.items()
        written = ["--output", str(self.folder / AVERAGED)]
        return [sys.executable, str(AVERAGER), str((self.folder / LAST).parent), f"--{which}", str(count), *written]

    def measure_argv(self, subset: str = "test") -> list[str]:
        """Return the command that measures the model on a test set."""
        return self.measure.argv(self, self.folder / GENERATING, subset)

    def argv(self, step: Step) -> list[str]:
        """Return the command of a step."""
        if step == TRAIN:
            return self.train_argv()
        return self.average_argv() if step == AVERAGE else self.measure_argv(step.subset)

    def advance(self, lane: Launch | None = None) -> bool:
        """Start the next step, on the GPUs of ``lane``, or look after the one that runs; return whether all are done.

        Raises JobFailed, Busy.
        """
        if self._job is None and self.done():
            self._release()
            return True
        if self._held is None:
            self._held = lock(self.folder)
        try:
            if self._job is None and self.other_data():
                now = f"than {self.data.folder} holds now: move this run's folder away, or choose another --out"
                raise JobFailed(f"{self.folder}: was trained on other data {now}")
            if self._job is None:
                self._start(self.launch if lane is None else lane.on(self.launch.gpus))
            elif self._job.finished():
                self._job = None
                self._stamp()
        except BaseException:
            self._release()
            raise
        return False

    def _release(self) -> None:
        if self._job is not None:
            self._job.stop()
            self._job = None
        if self._held is not None:
            self._held.close()
            self._held = None

    def _start(self, lane: Launch) -> None:
        if not self.facts():
            mend_last_checkpoint((self.folder / LAST).parent)
            if begun(self.folder) >= self.updates:
                # Killed after the last checkpoint: fairseq would make one more update before it stops.
                write_stamp(self.folder / TRAIN.stamp, self._trained())
        damaged = (self.folder / AVERAGE.stamp).exists() and AVERAGE.facts(self.folder) is None
        if damaged and self.recipe.average and whole(self.model):  # the checkpoints that it is made of may be gone
            write_stamp(self.folder / AVERAGE.stamp, {"average": dict(self.recipe.average)})
        if self.done():  # with the stamps that were written anew
            return
        self._step = next(step for step in self.steps() if step.facts(self.folder) is None)
        self._note_code()
        if self._step == TRAIN:
            log = self.folder / "train.json.log"
            self._log_size = log.stat().st_size if log.exists() else 0
        elif self._step != AVERAGE:
            if self.model.exists() and not whole(self.model):
                raise JobFailed(f"{self.model}: half a file; remove {self.folder} and train this run again")
            shutil.rmtree(self.folder / GENERATING, ignore_errors=True)
            (self.folder / GENERATING).mkdir()
            (self.folder / self._step.log).unlink(missing_ok=True)  # the numbers may be in it
        self._job = Job(
            self.argv(self._step),
            self.folder / self._step.log,
            threads=self.recipe.threads,
            held=self._held,
            environment=lane.environment(self._step == TRAIN),
            errors=self.folder / ERRORS if self._step == TRAIN else None,
        )

    def _trained(self) -> dict[str, Any]:
        """Return the facts of the training that has ended."""
        return {**training_facts(self.folder, self.launch.alone), "seed": self.seed, "machine": self.machine()}

    def machine(self) -> dict[str, Any]:
        """Return hardware, batch, precision and versions of a training, as columns of the results."""
        found = versions()
        here = replace(self.recipe, gpus=self.launch.world)
        return {
            "gpus": 0 if self.launch.cpu else self.launch.world,
            "batch_tokens": "" if here.lead else paper_batch(here),
            "precision": self.launch.precision,
            "hardware": hardware("cpu" if self.launch.cpu else "gpu", self.recipe.threads),
            "torch": found["torch"],
            "fairseq": found["fairseq"],
            "package": found[PACKAGE],
        }

    def measurements(self, baseline: Run | None, wanted: Container[str] = ()) -> list[Measurement]:
        """Return what the measure finds, and the ``wanted`` metrics of the training. Raises ScoreError."""
        found = self.measure.measurements(self, baseline)
        facts = self.facts()
        for metric in OF_TRAINING:
            if metric in wanted and facts.get(metric) is not None:
                found.append(Measurement(metric, float(facts[metric])))
        return found

    def _stamp(self) -> None:
        self._note_code()
        step, facts = self._step, {}
        if step == TRAIN:
            facts = self._trained()
            shutil.rmtree(self.folder / ERRORS, ignore_errors=True)
        elif step == AVERAGE:
            facts = {"average": dict(self.recipe.average)}
        else:
            try:
                found = self.measure.collect(self.folder / GENERATING, self.folder / step.log, step.subset)
            except ScoreError as error:
                raise JobFailed(str(error)) from None
            os.replace(found, self.folder / found.name)
            shutil.rmtree(self.folder / GENERATING, ignore_errors=True)
            facts = {"output": found.name}
        write_stamp(self.folder / step.stamp, facts)
        if step == AVERAGE and not self.keep_checkpoints:
            remove_averaged((self.folder / LAST).parent)

    # --- where it stands

    def status(self) -> str:
        """Return where the run stands, for the progress line."""
        if self._step != TRAIN:
            return f"{self.name} {self._step.doing}"
        log = train_log(self.folder, self._log_size)
        if not log:
            return f"{self.name} starts"
        last = log[max(log)]
        numbers = f"loss {float(last['loss']):.2f}, {float(last['wps']):.0f} words/s"
        return f"{self.name} {max(log)}/{self.updates} updates, {numbers}"

    def seconds_left(self) -> float:
        """Return the estimate of the time left, by the speed of the log's last line, or before by expect_minutes."""
        if self.done():
            return 0.0
        if self._step != TRAIN or (self._job is None and (self.folder / TRAIN.stamp).exists()):
            return max(3.0, MEASURING - (time.time() - self._job.started if self._job else 0.0))
        log = train_log(self.folder, self._log_size if self._job else 0)
        at = max(log, default=0)
        each = 60 * self.recipe.expect_minutes / self.updates
        if self._job and at and float(log[at]["wps"]) > 0:
            each = float(log[at]["wpb"]) / float(log[at]["wps"])
        return MEASURING + each * max(0, self.updates - at)
