"""Commands on a tiny translation task: in this process, which saves the seconds of the imports, or as subprocesses."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import os
import random
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.logging import metrics

from fairseq_localattn.phrases import binarize
from support.paths import ROOT as REPOSITORY

USER_DIR = REPOSITORY / "fairseq_localattn"
BIN = Path(sys.executable).parent
TIMEOUT = 300
SPLITS = ("train", "valid", "test")
#: Flags of :func:`train_flags` that are of translation alone.
WITHOUT_PAIRS: dict[str, object] = {
    **dict.fromkeys(("source_lang", "target_lang", "share_all_embeddings", "label_smoothing")),
    "criterion": "cross_entropy",
}
Done = subprocess.CompletedProcess[str]


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def checked(done: Done, check: bool) -> Done:
    if check and done.returncode != 0:
        words = " ".join(map(str, done.args))
        raise AssertionError(f"{words}\nexit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def run(*command: object, cwd: Path | None = None, check: bool = True) -> Done:
    """Run a subprocess and return its outcome.

    Raises AssertionError with the end of the output when ``check`` and the command failed.
    """
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=TIMEOUT)
    return checked(done, check)


def fairseq(command: str, *arguments: object, check: bool = True) -> Done:
    """Run ``fairseq-<command>`` with the plugin in this process, and return its outcome as of a subprocess."""
    main = importlib.import_module(f"fairseq_cli.{command.replace('-', '_')}").cli_main
    # A worker that loads data outlives its command in this process, and is waited for five seconds later on.
    workers = [] if command == "preprocess" else ["--num-workers", 0]
    return call(main, *arguments, *workers, "--user-dir", USER_DIR, check=check)


def call(main: Callable[[], object], *arguments: object, check: bool = True) -> Done:
    """Call the main function of a command in this process, and return its outcome as of a subprocess.

    The command finds ``arguments`` in ``sys.argv``. Its log goes to the returned stdout, as fairseq-train's does.
    """
    words = [main.__module__, *map(str, arguments)]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _state_of_a_new_process(out):
        sys.argv = words
        try:
            main()
            status = 0
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            if isinstance(stop.code, str):
                print(stop.code, file=err)
        except Exception:
            traceback.print_exc(file=err)
            status = 1
    return checked(subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue()), check)


@contextlib.contextmanager
def _state_of_a_new_process(log: io.StringIO) -> Iterator[None]:
    """Let a command begin with the global state of a new process, and take back what it changes of it."""
    root, preprocess = logging.getLogger(), logging.getLogger("fairseq_cli.preprocess")
    before = sys.argv, root.handlers, root.level, logging.root.manager.disable
    random_states = random.getstate(), np.random.get_state()
    root.handlers = [logging.StreamHandler(log)]
    root.setLevel(logging.INFO)
    logging.disable(logging.NOTSET)
    _forget_training()
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        _forget_training()
        for handler in preprocess.handlers[:]:  # one more for each call: a file in the data's folder
            preprocess.removeHandler(handler)
            handler.close()
        sys.argv, root.handlers, root.level, disabled = before
        logging.disable(disabled)
        random.setstate(random_states[0])
        np.random.set_state(random_states[1])


def _forget_training() -> None:
    """Drop what fairseq keeps of a training in its modules: meters, and the best score so far."""
    metrics.reset()
    vars(checkpoint_utils.save_checkpoint).pop("best", None)


def make_data(folder: Path, train: int = 400, held_out: int = 12) -> Path:
    """Write binarised data, and return their folder, ``folder/bin``: reverse a sentence of 3 to 7 letters.

    The text is ``folder/{split}.xx``, and ``folder/{split}.xx.tree`` has the trees that the phrases come from.
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(1)
    for split, size in (("train", train), ("valid", held_out), ("test", held_out)):
        rows = [generator.choices("abcdefgh", k=generator.randint(3, 7)) for _ in range(size)]
        (folder / f"{split}.xx").write_text("".join(" ".join(row) + "\n" for row in rows))
        (folder / f"{split}.yy").write_text("".join(" ".join(reversed(row)) + "\n" for row in rows))
        (folder / f"{split}.xx.tree").write_text("".join(tree_of(row) + "\n" for row in rows))
    prefixes = [word for split in SPLITS for word in (f"--{split}pref", folder / split)]
    fairseq("preprocess", "-s", "xx", "-t", "yy", *prefixes, "--joined-dictionary", "--destdir", folder / "bin")
    places = ("--lang", "xx", "--texts", folder, "--trees", folder, "--subwords", "none", "--workers", "1")
    call(binarize.main, folder / "bin", *places)
    return folder / "bin"


def make_text(data: Path, folder: Path) -> Path:
    """Binarise the source of ``data`` by itself, as a language model reads it, and return its folder."""
    texts = [word for split in SPLITS for word in (f"--{split}pref", data.parent / f"{split}.xx")]
    fairseq("preprocess", "--only-source", *texts, "--srcdict", data / "dict.xx.txt", "--destdir", folder)
    return folder


def make_classes(data: Path, folder: Path, names: tuple[str, str] = ("low", "high")) -> Path:
    """Binarise the source of ``data`` in two classes, by the first letter of a sentence, and return its folder."""
    make_text(data, folder / "bin" / "input0")
    for split in SPLITS:
        lines = (data.parent / f"{split}.xx").read_text().splitlines()
        (folder / f"{split}.label").write_text("".join(names[line[0] >= "e"] + "\n" for line in lines))
    labels = [word for split in SPLITS for word in (f"--{split}pref", folder / f"{split}.label")]
    fairseq("preprocess", "--only-source", *labels, "--destdir", folder / "bin" / "label")
    return folder / "bin"


def tree_of(words: list[str]) -> str:
    """Return some tree of three words or more: a pair of words, and branches to the right."""
    leaves = [f"({word.upper()} {word})" for word in words]
    right = leaves[-1]
    for leaf in reversed(leaves[2:-1]):
        right = f"(VP {leaf} {right})"
    return f"(ROOT (S (NP {leaves[0]} {leaves[1]}) {right}))"


def train_flags(data: Path, arch: str, save_dir: Path, updates: int, **more: object) -> list[object]:
    """Return the arguments of a short training; ``more``: flags by name, True without a value, None: left out."""
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
        if value is not None:
            words += [f"--{name}"] if value is True else [f"--{name}", value]
    return words


def lm_flags(data: Path, arch: str, save_dir: Path, updates: int, **more: object) -> list[object]:
    """Return the arguments of a short training of a language model."""
    task = {"task": "language_modeling", "sample_break_mode": "eos", "tokens_per_sample": 32}
    return train_flags(data, arch, save_dir, updates, **{**WITHOUT_PAIRS, **task, **more})


def class_flags(data: Path, arch: str, save_dir: Path, updates: int, **more: object) -> list[object]:
    """Return the arguments of a short training of a classifier of two classes."""
    task = {"task": "sentence_prediction", "criterion": "sentence_prediction", "num_classes": 2}
    return train_flags(data, arch, save_dir, updates, **{**WITHOUT_PAIRS, **task, **more})
