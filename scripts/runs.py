"""One run of a recipe: an architecture and a seed, trained and decoded by fairseq; resumable."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from jobs import Job, lock, read_stamp, write_stamp
from recipe import ROOT, USER_DIR, Recipe, expand, load_recipe
from score import TestSet

# Flags that change neither the model nor its output: a run that differs only in these is the same run.
NOT_SETTINGS = {"log_interval", "save_interval_updates", "keep_interval_updates", "no_epoch_checkpoints", "num_workers"}
GENERATED = "generate-test.txt"


@dataclass(frozen=True)
class Prepared:
    """A data folder as data-prep leaves it: raw/, tok/, bpe/, bin/ with {train,valid,test}.LANG."""

    folder: Path
    source: str
    target: str
    bpe: str = "subword_nmt"
    lowercase: bool = False

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def test_set(self) -> TestSet:
        """What a translation of the test set is scored against."""
        raw, tok = (self.folder / kind / f"test.{self.target}" for kind in ("raw", "tok"))
        return TestSet(raw, self.target, self.bpe, self.lowercase, tok)

    def fingerprint(self) -> str:
        """A hash of the binarised data: other data are other results."""
        return _fingerprint(self.bin)


@functools.cache
def _fingerprint(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.bin"), *folder.glob("*.idx"), *folder.glob("dict.*.txt")]):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def settings_hash(recipe: Recipe, data: str) -> str:
    """Eight hex digits that change with all that can change a result, beside architecture and seed: flags and data."""
    sections = {
        name: {key: str(entry.value) for key, entry in entries.items() if key not in NOT_SETTINGS}
        for name, entries in recipe.sections.items()
    }
    facts = json.dumps([sections, data], sort_keys=True)
    return hashlib.sha256(facts.encode()).hexdigest()[:8]


@dataclass
class Run:
    """Trains `arch` with `seed` on `data` under `folder`, then decodes the test set with the last checkpoint.

    advance() is called again and again until it returns True; a failure raises JobFailed. What is finished is skipped,
    and a training that was killed continues from its last checkpoint.
    """

    recipe: Recipe
    arch: str
    seed: int
    data: Prepared
    folder: Path
    threads: int = 1
    _job: Job | None = field(default=None, repr=False)
    _held: IO[str] | None = field(default=None, repr=False)
    _step: str = "train"
    _log_size: int = 0  # of the training log when this process began to train
    _first: tuple[float, int] | None = None  # time and updates at its first sight of a new line there

    @property
    def label(self) -> str:
        return f"{self.arch} (seed {self.seed})"

    @property
    def settings(self) -> str:
        return settings_hash(self.recipe, self.data.fingerprint())

    @property
    def updates(self) -> int:
        return int(self.recipe.flag("train", "max_update"))

    @property
    def output(self) -> Path:
        return self.folder / GENERATED

    def facts(self) -> dict[str, Any]:
        """What the finished training has written down: updates, parameters, words_per_second, train_minutes, commit."""
        return read_stamp(self.folder / "trained.json") or {}

    def done(self) -> bool:
        """Both steps are finished."""
        return all((self.folder / f"{step}.json").exists() for step in ("trained", "generated"))

    def train_argv(self) -> list[str]:
        """The command that trains."""
        return [
            sys.executable, "-m", "fairseq_cli.train", str(self.data.bin),
            "--user-dir", str(USER_DIR), "--arch", self.arch, "--seed", str(self.seed),
            "--source-lang", self.data.source, "--target-lang", self.data.target,
            "--save-dir", str(self.folder / "checkpoints"),
            "--log-format", "json", "--log-file", str(self.folder / "train.json.log"),
            *_expanded(self.recipe, "train", self.arch),
        ]  # fmt: skip

    def generate_argv(self) -> list[str]:
        """The command that decodes the test set."""
        return [
            sys.executable, "-m", "fairseq_cli.generate", str(self.data.bin),
            "--user-dir", str(USER_DIR), "--path", str(self.folder / "checkpoints" / "checkpoint_last.pt"),
            "--source-lang", self.data.source, "--target-lang", self.data.target, "--gen-subset", "test",
            "--results-path", str(self.folder / "generating"),
            *_expanded(self.recipe, "generate", self.arch),
        ]  # fmt: skip

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
        self._step = "generate" if (self.folder / "trained.json").exists() else "train"
        if self._step == "train":
            mend_last_checkpoint(self.folder / "checkpoints")
            log = self.folder / "train.json.log"
            self._log_size, self._first = log.stat().st_size if log.exists() else 0, None
            self._job = Job(self.train_argv(), self.folder / "train.log", threads=self.threads, held=self._held)
        else:
            shutil.rmtree(self.folder / "generating", ignore_errors=True)
            self._job = Job(self.generate_argv(), self.folder / "generate.log", threads=self.threads, held=self._held)

    def _stamp(self) -> None:
        if self._step == "train":
            write_stamp(
                self.folder / "trained.json", {**training_facts(self.folder), "commit": commit(), "seed": self.seed}
            )
        else:
            os.replace(self.folder / "generating" / GENERATED, self.output)
            shutil.rmtree(self.folder / "generating", ignore_errors=True)
            write_stamp(self.folder / "generated.json", {"output": self.output.name})

    # --- where it stands

    def status(self) -> str:
        """For the progress line."""
        if self._step == "generate":
            return f"{self.arch} translates the test set"
        log = train_log(self.folder, self._log_size)
        if not log:
            return f"{self.arch} starts"
        last = log[max(log)]
        numbers = f"loss {float(last['loss']):.2f}, {float(last['wps']):.0f} words/s"
        return f"{self.arch} {max(log)}/{self.updates} updates, {numbers}"

    def seconds_left(self) -> float:
        """Estimate for this run: from its own speed once it is under way, from the recipe's expect_minutes before."""
        generate = 20.0
        expected = 60 * float(self.recipe.get("expect_minutes", 10))
        if self.done():
            return 0.0
        if self._step == "generate" or (self._job is None and (self.folder / "trained.json").exists()):
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
def _expansion(path: Path, stamp: float, section: str, arch: str) -> tuple[str, ...]:
    return tuple(expand(load_recipe(path), section, arch=arch))


def _expanded(recipe: Recipe, section: str, arch: str) -> tuple[str, ...]:
    """expand(), once for all seeds."""
    return _expansion(recipe.path, recipe.path.stat().st_mtime, section, arch)


def mend_last_checkpoint(folder: Path) -> None:
    """Puts the newest whole checkpoint in place of half a checkpoint_last.pt.

    fairseq writes that one by copying another, so that a kill can leave half a file.
    """
    last = folder / "checkpoint_last.pt"
    if last.exists() and not _whole(last):
        last.unlink()
    if last.exists():
        return
    others = sorted(folder.glob("checkpoint_*_*.pt"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in others:
        if _whole(path):
            new = folder / "checkpoint_last.pt.new"
            shutil.copyfile(path, new)
            os.replace(new, last)
            return


def _whole(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError):
        return False


def train_log(folder: Path, start: int = 0) -> dict[int, dict[str, str]]:
    """fairseq's JSON log from byte `start`, by number of updates; of what was done twice the last counts."""
    found: dict[int, dict[str, str]] = {}
    try:
        data = (folder / "train.json.log").read_bytes()[start:]
    except FileNotFoundError:
        return found
    for line in data.decode("utf-8", errors="replace").splitlines():
        if not line.startswith("{") or '"wps"' not in line:
            continue
        try:
            entry = json.loads(line)
            found[int(entry["num_updates"])] = entry
        except (json.JSONDecodeError, KeyError, ValueError):
            continue
    return dict(sorted(found.items()))


def training_facts(folder: Path) -> dict[str, Any]:
    """What the logs say of a finished training.

    words_per_second: target tokens (sub-words and end of sentence) by seconds, fairseq's wps of each logging interval
    averaged over the whole run by time. train_minutes: these intervals together (validation and saving included, start
    not), so that an interrupted run counts as a whole one: fairseq's own wall time begins again at a resume.
    """
    log = train_log(folder)
    text = (folder / "train.json.log").read_text(encoding="utf-8", errors="replace")
    ends = re.findall(r'"train_num_updates": "(\d+)"', text)
    words = seconds = 0.0
    before = 0
    for at, entry in log.items():
        speed = float(entry["wps"])
        if speed > 0:
            amount = float(entry["wpb"]) * (at - before)
            words += amount
            seconds += amount / speed
        before = at
    parameters = None
    for line in (folder / "train.log").read_text(encoding="utf-8", errors="replace").splitlines():
        if "num. shared model params:" in line:
            parameters = int(line.split("num. shared model params:")[1].split("(")[0].replace(",", ""))
    return {
        "updates": int(ends[-1]) if ends else None,
        "parameters": parameters,
        "words_per_second": round(words / seconds) if seconds else None,
        "train_minutes": round(seconds / 60, 2),
    }


@functools.cache
def commit() -> str:
    """The commit of this checkout, with '+dirty' where files other than the results differ; 'none' outside git."""

    def git(*args: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", ".", ":(exclude)results")
        return git("rev-parse", "--short=10", "HEAD") + ("+dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "none"
