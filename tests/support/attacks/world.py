"""What commands under attack read, data and valid checkpoints, and each command that reads some."""

from __future__ import annotations

import contextlib
import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from experiments.runs import averaging
from fairseq_localattn.analysis import accuracy, describe
from fairseq_localattn.analysis.heatmap import command as heatmap
from fairseq_localattn.analysis.locality import command as locality
from fairseq_localattn.models.transformer import LocalTransformerModel
from support.cli import Done, call, fairseq, make_data, train_flags

TREES = "translation_with_phrases"
PAIR = ["-s", "xx", "-t", "yy", "--beam", 1, "--max-len-b", 5]
SECONDS = 60
MEMORY = 2 << 30  # bytes beyond what this process has


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Bound the time and the memory of what is done here."""

    def end(*_: object) -> None:
        raise TimeoutError(f"longer than {SECONDS} s")

    before = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, before[1]))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


class World(NamedTuple):
    """A folder with binarised data in bin, their text and trees, and a model of each kind."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "bin"

    def model(self, kind: str = "csan") -> Path:
        return self.folder / kind / "checkpoint_last.pt"

    def copy_of_data(self, folder: Path) -> Path:
        return Path(shutil.copytree(self.data, folder / "bin"))


def make_world(folder: Path) -> World:
    """Write the data, and train each kind of model for one update."""
    data = make_data(folder, train=24, held_out=4)
    shutil.copy(data / "dict.xx.txt", data / "dict.txt")  # of a language model
    for kind, task in (("csan", "translation"), ("mgsa", TREES)):
        fairseq("train", *train_flags(data, f"transformer_{kind}_tiny", folder / kind, 1, task=task))
    return World(folder)


Run = Callable[[Path, Path], Done]  # of the data and the checkpoint


def training(flag: str) -> Run:
    """Return a training; flag: that which takes the checkpoint."""

    def train(data: Path, path: Path) -> Done:
        words = train_flags(data, "transformer_csan_tiny", path.parent / "run", 2, no_save=True)
        return fairseq("train", *words, flag, path, check=False)

    return train


def evaluated(command: str, *words: object) -> Run:
    return lambda data, path: fairseq(command, data, "--path", path, "--cpu", *words, check=False)


def analysed(module: Any, *words: object) -> Run:
    return lambda data, path: call(module.main, data, "--path", path, "--cpu", *words, check=False)


def hub(data: Path, path: Path) -> Done:
    return call(lambda: LocalTransformerModel.from_pretrained(path.parent, path.name, data), check=False)


def averaged(data: Path, path: Path) -> Done:
    return call(lambda: sys.exit(averaging.main()), path, "--output", path.parent / "mean.out", check=False)


#: Every command that reads a checkpoint; probing does by the function of the other analyses.
READERS: dict[str, Run] = {
    "locality": analysed(locality),
    "heatmap": analysed(heatmap, "--sentence", "0"),
    "accuracy": analysed(accuracy),
    "from_pretrained": hub,
    "validate": evaluated("validate", "--task", "translation", "--max-tokens", 100, "--valid-subset", "test"),
    "generate": evaluated("generate", *PAIR),
    "interactive": evaluated("interactive", *PAIR),
    "eval-lm": evaluated("eval-lm", "--gen-subset", "test", "--max-tokens", 500),
    "train --restore-file": training("--restore-file"),
    "train --finetune-from-model": training("--finetune-from-model"),
    "average": averaged,
    "describe": lambda data, path: call(describe.main, "--path", path, check=False),
}


def assert_one_line(done: Done, *parts: str) -> None:
    """Assert that a command failed, and said why in one line."""
    said = [line for line in done.stderr.splitlines() if line.strip() and "it/s" not in line]
    assert done.returncode != 0 and len(said) == 1, (done.returncode, done.stderr[-3000:])
    assert "Traceback" not in done.stdout
    assert all(part in said[0] for part in parts), (parts, said[0])
