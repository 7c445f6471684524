"""fairseq's commands as subprocesses on a tiny translation task, shared by the command-line tests."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

from support.paths import ROOT as REPOSITORY

USER_DIR = REPOSITORY / "fairseq_localattn"
TIMEOUT = 300


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def run(*command: object, cwd: Path | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A command's outcome with its output; AssertionError with what it printed when ``check`` and it failed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=TIMEOUT)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}\nexit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def fairseq(command: str, *arguments: object, **kwargs: object) -> subprocess.CompletedProcess[str]:
    """``fairseq-<command>`` of this interpreter, with the plugin."""
    module = {"eval-lm": "eval_lm"}.get(command, command)
    return run(sys.executable, "-m", f"fairseq_cli.{module}", *arguments, "--user-dir", USER_DIR, **kwargs)  # type: ignore[arg-type]


def make_data(folder: Path, train: int = 400, held_out: int = 12) -> Path:
    """Binarised data, ``folder/bin``: reverse a sentence of 3 to 7 letters. Text: ``folder/{split}.xx``.

    With phrases of the source, from the trees in ``folder/{split}.xx.tree``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(1)
    for split, size in (("train", train), ("valid", held_out), ("test", held_out)):
        rows = [generator.choices("abcdefgh", k=generator.randint(3, 7)) for _ in range(size)]
        (folder / f"{split}.xx").write_text("".join(" ".join(row) + "\n" for row in rows))
        (folder / f"{split}.yy").write_text("".join(" ".join(reversed(row)) + "\n" for row in rows))
        trees = [tree_of(line.split()) for line in (folder / f"{split}.xx").read_text().splitlines()]
        (folder / f"{split}.xx.tree").write_text("".join(tree + "\n" for tree in trees))
    prefixes = [word for split in ("train", "valid", "test") for word in (f"--{split}pref", folder / split)]
    run(
        sys.executable, "-m", "fairseq_cli.preprocess", "-s", "xx", "-t", "yy", *prefixes,
        "--joined-dictionary", "--destdir", folder / "bin",
    )  # fmt: skip
    places = ("--lang", "xx", "--texts", folder, "--trees", folder, "--subwords", "none", "--workers", "1")
    run(sys.executable, "-m", "fairseq_localattn.phrases.binarize", folder / "bin", *places)
    return folder / "bin"


def tree_of(words: list[str]) -> str:
    """Some tree of three words or more: a pair of words, and branches to the right."""
    leaves = [f"({word.upper()} {word})" for word in words]
    right = leaves[-1]
    for leaf in reversed(leaves[2:-1]):
        right = f"(VP {leaf} {right})"
    return f"(ROOT (S (NP {leaves[0]} {leaves[1]}) {right}))"


def train_flags(data: Path, arch: str, save_dir: Path, updates: int, **more: object) -> list[object]:
    """Arguments of a short training; ``more`` are further flags by name, True for a flag without a value."""
    flags = {
        "arch": arch, "save-dir": save_dir, "max-update": updates, "max-tokens": 300, "optimizer": "adam",
        "lr": 0.002, "lr-scheduler": "inverse_sqrt", "warmup-updates": 20, "dropout": 0.1, "clip-norm": 1.0,
        "criterion": "label_smoothed_cross_entropy", "label-smoothing": 0.1, "share-all-embeddings": True,
        "log-format": "json", "log-interval": 5, "cpu": True, "num-workers": 0, "seed": 1, "no-epoch-checkpoints": True,
        "source-lang": "xx", "target-lang": "yy", "task": "translation",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }  # fmt: skip
    words: list[object] = [data]
    for name, value in flags.items():
        words += [f"--{name}"] if value is True else [f"--{name}", value]
    return words
