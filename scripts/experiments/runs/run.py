"""One run of a recipe: a system and a seed, trained by fairseq, then measured; resumable."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from experiments.measure.command import ScoreError, TestSet
from experiments.measure.measures import Measure, measure_of
from experiments.recipes.recipe import ROOT, USER_DIR, Recipe, expand
from experiments.runs.checkout import commit, package
from experiments.runs.checkpoints import (
    BEST,
    LAST,
    checkpoint_updates,
    mend_last_checkpoint,
    train_log,
    training_facts,
    updates_of_names,
    whole,
)
from experiments.runs.launch import Launch
from experiments.runs.processes import Job, JobFailed, lock, read_stamp, write_stamp
from experiments.runs.steps import AVERAGE, TRAIN, Step

# Flags that change neither the model nor its output: a run that differs only in these is the same run. (Where the best
# checkpoint or an average is measured, that of save_interval_updates does: it says which checkpoints there are.)
NOT_SETTINGS = {"log_interval", "save_interval_updates", "keep_interval_updates", "no_epoch_checkpoints", "num_workers"}
AVERAGER = ROOT / "scripts" / "average.py"
GENERATING = "generating"  # what is measured is written there, and moved when it is complete
AVERAGED = "averaged.pt"


@dataclass(frozen=True)
class Prepared:
    """A data folder as data-prep leaves it: bin/ for fairseq; for translation raw/, tok/, bpe/ with {split}.LANG."""

    folder: Path
    source: str = ""
    target: str = ""
    bpe: str = "subword_nmt"
    lowercase: bool = False

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def _has_phrases(self) -> bool:
        """Whether the phrases are there; a preparation that was killed among them has written some."""
        begun = (self.folder / "trees.txt").exists()
        return any(self.bin.glob("*.phrases.*")) and (not begun or (self.folder / "phrases").is_dir())

    def complete(self, phrases: bool) -> bool:
        """Whether the preparation has nothing to do; `phrases`: with those of trees, which come after the others."""
        return self.bin.is_dir() and (not phrases or (self.folder / "phrases").is_dir())

    def test_set(self, subset: str = "test") -> TestSet:
        """What translations of a test set are scored against: {subset}.TARGET, or its .ref0, .ref1, …"""
        raw = self._references("raw", subset)
        # Pieces of raw text have no tokens.
        tok = self._references("tok", subset) if (self.folder / "tok").is_dir() else []
        first, others = (tok[0], tok[1:]) if tok else (None, [])
        return TestSet(raw[0], self.target, self.bpe, self.lowercase, first, tuple(raw[1:]), tuple(others))

    def _references(self, kind: str, subset: str) -> list[Path]:
        one = self.folder / kind / f"{subset}.{self.target}"
        several = sorted(one.parent.glob(f"{one.name}.ref[0-9]"))
        return several or [one]

    def fingerprint(self, phrases: bool = False) -> str:
        """A hash of the binarised data: other data are other results. `phrases`: of the source's phrases as well."""
        return _fingerprint(self.bin, phrases)

    def fingerprint_for(self, recipe: Recipe) -> str:
        """That of what the recipe's task reads; 'not prepared' where there are no data yet.

        Data that are read against the direction of their name, as en-de from train.de-en, are others than those read
        along with it.
        """
        phrases = measure_of(recipe).reads_phrases
        if not self.bin.is_dir() or phrases and not self._has_phrases():
            return f"not prepared {self.folder.name} {self.source}-{self.target}"
        found = self.fingerprint(phrases)
        reverse = f"{self.target}-{self.source}"
        return f"{found} from {reverse}" if self.source and any(self.bin.glob(f"train.{reverse}.*")) else found


@functools.cache
def _fingerprint(folder: Path, phrases: bool) -> str:
    digest = hashlib.sha256()
    for path in sorted([*folder.rglob("*.bin"), *folder.rglob("*.idx"), *folder.rglob("dict*.txt")]):
        if not phrases and ".phrases." in path.name:
            continue
        digest.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def forget_fingerprints() -> None:
    """To be called after a preparation: the data are read once in a process."""
    _fingerprint.cache_clear()


def settings_hash(recipe: Recipe, data: str) -> str:
    """Eight hex digits that change with all that can change a result, beside architecture and seed: flags and data.

    That of a system with further flags (Recipe.system) changes with its architecture as well.
    """
    best, average = recipe.get("checkpoint") == "best", recipe.get("average")
    ignored = NOT_SETTINGS - {"save_interval_updates"} if best or average else NOT_SETTINGS
    sections = {
        name: {key: str(entry.value) for key, entry in entries.items() if key not in ignored}
        for name, entries in recipe.sections.items()
    }
    if best:
        sections["checkpoint"] = {"": "best"}
    if gpus := recipe.get("gpus"):
        sections["gpus"] = {"": str(gpus)}
    if recipe.get("probing", {}).get("training") == "scratch":  # its encoder is that of no translation model
        sections["probing"] = {"": "scratch"}
    if average:
        sections["average"] = {which: str(count) for which, count in average.items()}
    facts = json.dumps([sections, data], sort_keys=True)
    return hashlib.sha256(facts.encode()).hexdigest()[:8]


@dataclass
class Run:
    """Trains `arch` with `seed` on `data` under `folder`, then measures a checkpoint on the test set (measures.py).

    `system` is the name of the system where `recipe` is that of one (Recipe.system), else the architecture's.
    advance() is called again and again until it returns True; a failure raises JobFailed. What is finished is skipped,
    and a training that was killed continues from its last checkpoint.
    """

    recipe: Recipe
    arch: str
    seed: int
    data: Prepared
    folder: Path
    threads: int = 1
    system: str = ""
    launch: Launch = Launch()
    _job: Job | None = field(default=None, repr=False)
    _held: IO[str] | None = field(default=None, repr=False)
    _step: Step = TRAIN
    _log_size: int = 0  # of the training log when this process began to train
    _first: tuple[float, int] | None = None  # time and updates at its first sight of a new line there

    def __post_init__(self) -> None:
        self.system = self.system or self.arch

    @property
    def label(self) -> str:
        return f"{self.system} (seed {self.seed})"

    @property
    def settings(self) -> str:
        return settings_hash(self.recipe, self.data.fingerprint_for(self.recipe))

    @property
    def updates(self) -> int:
        return int(self.recipe.flag("train", "max_update"))

    @property
    def measure(self) -> Measure:
        return measure_of(self.recipe)

    @property
    def model(self) -> Path:
        """The checkpoint that is measured: as the recipe says, an average, the best by validation, or the last."""
        if self.recipe.get("average"):
            return self.folder / AVERAGED
        return self.folder / (BEST if self.recipe.get("checkpoint") == "best" else LAST)

    @property
    def output(self) -> Path:
        return self.folder / self.measure.output

    def flags(self, section: str) -> tuple[str, ...]:
        """The recipe's flags of a section, as argv."""
        return _expanded(self.recipe, section, self.arch)

    def facts(self) -> dict[str, Any]:
        """What the finished training has written down: updates, parameters, words_per_second, train_minutes."""
        return read_stamp(self.folder / "trained.json") or {}

    def done(self) -> bool:
        """All steps are finished."""
        return all((self.folder / step.stamp).exists() for step in self.steps())

    def test_sets(self) -> dict[str, str]:
        """Name → fairseq's subset of the test sets."""
        return self.recipe.get("data", {}).get("tests", {"test": "test"})

    def steps(self) -> list[Step]:
        """What is to be done, in order."""
        found = [TRAIN, AVERAGE] if self.recipe.get("average") else [TRAIN]
        name, done = self.measure.step, self.measure.stamp
        for subset in self.test_sets().values():
            of = "" if subset == "test" else f".{subset}"
            found.append(Step(name, f"{done}{of}.json", f"{name}{of}.log", f"is measured on {subset}", subset))
        return found

    def begun(self) -> int:
        """Updates of the checkpoint from which the training will continue; 0 without one. Changes nothing."""
        return checkpoint_updates(self.folder) or updates_of_names(self.folder)

    def plan(self) -> str:
        """What is still to be done, for reading."""
        if self.done():
            return f"{self.label}: already finished, in {self.folder}"
        begun = self.begun()
        if begun >= self.updates:
            todo = "trained, to be decoded"
        else:
            todo = f"continues from update {begun} of {self.updates}" if begun else f"{self.updates} updates"
        if name := self.other_code():
            todo += f" (begun with another fairseq_localattn, commit {name}: the results will name both commits)"
        return f"{self.label}: {todo}, in {self.folder}"

    def commit(self) -> str:
        """The commit that trained and decoded; 'a..b' where it was another one in between, or at the end."""
        return "..".join(entry["commit"] for entry in self._code())

    def other_code(self) -> str | None:
        """The commit at which an unfinished run was last at work, where its package was not the present one."""
        code = self._code()
        return code[-1]["commit"] if code and not self.done() and code[-1]["package"] != package() else None

    def _code(self) -> list[dict[str, str]]:
        """Commit and package of each part of the run, in order; neighbours differ."""
        if stamp := read_stamp(self.folder / "started.json"):
            return stamp["code"]
        begun = self.facts() or (self.folder / LAST).exists()  # by runners that did not write started.json
        return [{"commit": self.facts().get("commit", "unknown"), "package": "unknown"}] if begun else []

    def _note_code(self) -> None:
        code, now = self._code(), {"commit": commit(), "package": package()}
        if code[-1:] != [now]:
            write_stamp(self.folder / "started.json", {"code": [*code, now]})

    def train_argv(self) -> list[str]:
        """The command that trains."""
        return [
            *self.launch.command(), str(self.data.bin),
            "--user-dir", str(USER_DIR), "--arch", self.arch, "--seed", str(self.seed),
            *self.measure.train_flags(self),
            "--save-dir", str((self.folder / LAST).parent),
            "--log-format", "json", "--log-file", str(self.folder / "train.json.log"),
            *self.flags("train"),
        ]  # fmt: skip

    def average_argv(self) -> list[str]:
        """The command that averages checkpoints."""
        ((which, count),) = self.recipe.get("average").items()
        written = ["--output", str(self.folder / AVERAGED)]
        return [sys.executable, str(AVERAGER), str((self.folder / LAST).parent), f"--{which}", str(count), *written]

    def generate_argv(self, subset: str = "test") -> list[str]:
        """The command that measures the model on a test set."""
        return [sys.executable, *self.measure.argv(self, self.folder / GENERATING, subset)]

    def argv(self, step: Step) -> list[str]:
        """The command of a step."""
        if step == TRAIN:
            return self.train_argv()
        return self.average_argv() if step == AVERAGE else self.generate_argv(step.subset)

    def advance(self) -> bool:
        """Starts what is next or looks after what runs; True when all is finished. Raises JobFailed, or Busy."""
        if self._job is None and self.done():
            return True
        if self._held is None:
            self._held = lock(self.folder)
        if self._job is None:
            self._start()
            return False
        try:
            if not self._job.finished():
                return False
            self._job = None
            self._stamp()
            ended = self.done()
        except BaseException:
            self._release()
            raise
        if ended:
            self._release()
        return ended

    def _release(self) -> None:
        self._job = None
        if self._held is not None:
            self._held.close()
            self._held = None

    def _start(self) -> None:
        if not self.facts():
            mend_last_checkpoint((self.folder / LAST).parent)
            if self.begun() >= self.updates:
                # Killed after the last checkpoint: fairseq would make one update more before it looks at their number.
                write_stamp(self.folder / TRAIN.stamp, self._trained())
        self._step = next(step for step in self.steps() if not (self.folder / step.stamp).exists())
        self._note_code()
        if self._step == TRAIN:
            log = self.folder / "train.json.log"
            self._log_size, self._first = log.stat().st_size if log.exists() else 0, None
        elif self._step != AVERAGE:
            if self.model.exists() and not whole(self.model):
                raise JobFailed(f"{self.model}: half a file; remove {self.folder} and train this run again")
            shutil.rmtree(self.folder / GENERATING, ignore_errors=True)
            (self.folder / GENERATING).mkdir()
            (self.folder / self._step.log).unlink(missing_ok=True)  # what is measured may stand in it
        self._job = Job(
            self.argv(self._step),
            self.folder / self._step.log,
            threads=self.threads,
            held=self._held,
            environment=self.environment(self._step),
        )

    def _trained(self) -> dict[str, Any]:
        """The facts of the training that has ended."""
        return {**training_facts(self.folder), "seed": self.seed}

    def _stamp(self) -> None:
        self._note_code()
        step, facts = self._step, {}
        if step == TRAIN:
            facts = self._trained()
        elif step == AVERAGE:
            facts = {"average": self.recipe.get("average")}
        else:
            try:
                found = self.measure.collect(self.folder / GENERATING, self.folder / step.log, step.subset)
            except ScoreError as error:
                raise JobFailed(str(error)) from None
            os.replace(found, self.folder / found.name)
            shutil.rmtree(self.folder / GENERATING, ignore_errors=True)
            facts = {"output": found.name}
        write_stamp(self.folder / step.stamp, facts)

    def environment(self, step: Step) -> dict[str, str]:
        """What the environment of a step has besides: the GPUs that it may use."""
        return self.launch.environment() if step == TRAIN else self.launch.decoding_environment()

    # --- where it stands

    def status(self) -> str:
        """For the progress line."""
        if self._step != TRAIN:
            return f"{self.system} {self._step.doing}"
        log = train_log(self.folder, self._log_size)
        if not log:
            return f"{self.system} starts"
        last = log[max(log)]
        numbers = f"loss {float(last['loss']):.2f}, {float(last['wps']):.0f} words/s"
        return f"{self.system} {max(log)}/{self.updates} updates, {numbers}"

    def seconds_left(self) -> float:
        """Estimate for this run: from its own speed once it is under way, from the recipe's expect_minutes before."""
        generate = 20.0
        expected = 60 * float(self.recipe.get("expect_minutes", 10))
        if self.done():
            return 0.0
        if self._step != TRAIN or (self._job is None and (self.folder / TRAIN.stamp).exists()):
            return max(3.0, generate - (time.time() - self._job.started if self._job else 0.0))
        at = max(train_log(self.folder, self._log_size if self._job else 0), default=0)
        remaining = max(0, self.updates - at)
        if self._job and at:
            self._first = self._first or (time.time(), at)
            seconds, done = time.time() - self._first[0], at - self._first[1]
            if seconds > 10 and done > 0:
                return generate + remaining * seconds / done
        return generate + expected * remaining / self.updates


@functools.lru_cache(maxsize=256)
def _expanded(recipe: Recipe, section: str, arch: str) -> tuple[str, ...]:
    """expand(), once for all seeds."""
    return tuple(expand(recipe, section, arch=arch))
