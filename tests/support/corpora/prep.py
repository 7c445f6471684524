"""Helpers of the tests of data preparation: running a preparation, and reading its result by fairseq's tasks."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from corpora.errors import as_status
from corpora.preparations import main as preparations
from corpora.preparations.options import Given
from support.paths import DATA_PREP

SPLITS = ("train", "valid", "test")
# They end a line for str.splitlines, and not for the shell.
SEPARATORS = ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
_servers: list[subprocess.Popen[str]] = []
# Names of the caller's environment that preparations read.
SOURCES = re.compile(
    r"(SST|IMDB|SVA|ONE_BILLION|CNNDM|GIGAWORD|ASPEC|NIST|WMT1\w+|IWSLT14|MULTI30K)_(DIR|URL|MD5|TREES)"
)


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment without the caller's corpora."""
    kept = {name: value for name, value in os.environ.items() if not SOURCES.fullmatch(name)}
    return kept | {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "LOCALATTN_DOWNLOADS": "", **more}


def call(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    words = [str(part) for part in command]
    return subprocess.run(words, env=clean_environment(**environment), capture_output=True, text=True, timeout=300)


def attempt(work: Callable[..., object], *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Call a function of `corpora` in this process, as a preparation does; return what it says, and its status."""

    def main() -> None:
        work(*arguments, **options)

    return _captured(as_status(main))


def run(main: Callable[[], int | None], *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the main() of a module of `corpora` in this process."""
    with mock.patch.object(sys, "argv", [main.__module__, *map(str, arguments)]):
        return _captured(main)


def _captured(main: Callable[[], int | None]) -> subprocess.CompletedProcess[str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main()
        except SystemExit as stop:
            status = int(stop.code or 0)
    return subprocess.CompletedProcess([], status or 0, out.getvalue(), err.getvalue())


def given_for(out: Path, **options: object) -> Given:
    """Return the command line of a preparation of this folder."""
    return Given(**{"name": "prepare_x", "out": out, "local": None, "mirror": "", "no_checksums": False} | options)


def script(corpus: str) -> str:
    """Return the name of a preparation's script."""
    return corpus if corpus == "parse_text" else f"prepare_{corpus}"


def command(corpus: str, out: Path, *options: object) -> list[str]:
    """Return the command of a preparation, with one worker unless `options` say otherwise."""
    return [str(part) for part in ("bash", DATA_PREP / f"{script(corpus)}.sh", out, "--workers", "1", *options)]


@functools.cache
def warm_python() -> str:
    """Return a program that is this interpreter with fairseq imported; it ends with this process (see warm.py)."""
    folder = tempfile.mkdtemp(prefix="warm")
    server = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).parents[1] / "warm.py"), folder],
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    assert server.stdout is not None and server.stdout.readline() == "ready\n"
    _servers.append(server)  # its stdin stays open
    return f"{folder}/python"


def prepare(corpus: str, out: Path, *options: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a preparation in this process; :func:`start_and_kill` runs its script."""
    return prepare_by(corpus, out, "--workers", "1", *options, **environment)


def prepare_by(corpus: str, *words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a preparation in this process by the words of its command line alone."""
    with mock.patch.dict(os.environ, clean_environment(**{"PYTHON": warm_python(), **environment}), clear=True):
        return _captured(lambda: preparations.main(script(corpus), words))


def prepare_until(last: str, corpus: str, out: Path, *options: object, **environment: str) -> str:
    """Do the steps of a preparation up to `last` in this process; return what it says."""
    printed, given = io.StringIO(), clean_environment(**{"PYTHON": warm_python(), **environment})
    with mock.patch.dict(os.environ, given, clear=True), contextlib.redirect_stdout(printed):
        plan = preparations.planned(script(corpus), [out, "--workers", "1", *options])
        names = [step.name for step in plan.steps]
        dataclasses.replace(plan, steps=plan.steps[: names.index(last) + 1]).run()
    return printed.getvalue()


def kill_when(words: list[str], there: Callable[[], bool], **environment: str) -> str:
    """Start a command, and kill it with its children as soon as there() is true; return what it printed."""
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(words, env=clean_environment(**environment), start_new_session=True, stdout=printed)
        _wait_and_kill(process, there)
        printed.seek(0)
        return printed.read()


def _wait_and_kill(process: subprocess.Popen[bytes], there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not there():
        assert process.poll() is None, "the command ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def start_and_kill(corpus: str, out: Path, there: Path, *options: object, **environment: str) -> str:
    """Run a preparation until a file or folder of OUT is there; return what it printed."""
    return kill_when(command(corpus, out, *options), there.exists, **environment)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the content of every file but fairseq's log, which has times in it."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "preprocess.log")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def assert_refused(done: subprocess.CompletedProcess, *parts: str) -> None:
    """Assert that a command failed with one line on stderr, which has all the parts."""
    assert done.returncode != 0, done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def lines_of(path: Path) -> list[str]:
    """Return the lines of a text file."""
    return path.read_text("utf-8").split("\n")[:-1]


def change_line(path: Path, number: int, to: str | bytes | None | Callable[[str], str]) -> None:
    """Put other text in place of a line (from 1) of a file, or remove it."""
    lines = path.read_bytes().split(b"\n")
    new = to(lines[number - 1].decode()) if callable(to) else to
    lines[number - 1 : number] = [] if new is None else [new.encode() if isinstance(new, str) else new]
    path.write_bytes(b"\n".join(lines))


def files_of(folder: Path) -> dict[Path, int]:
    """Return when each file was written, except for the lock, which every run touches."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def assert_classification_task(
    folder: Path, classes: int, texts: dict[str, list[str]], labels: dict[str, list[int]]
) -> None:
    """Assert that fairseq's task reads the folder: class k is label k, no other, and the known words return."""
    from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

    task = SentencePredictionTask.setup_task(SentencePredictionConfig(
        data=str(folder), num_classes=classes, no_shuffle=True, regression_target=False,
        classification_head_name="x", seed=1,
    ))  # fmt: skip
    names = task.label_dictionary
    # <mask> is what the task itself adds
    assert names.symbols[names.nspecial :] == [str(label) for label in range(classes)] + ["<mask>"]
    words = task.source_dictionary
    for split in SPLITS:
        data = task.load_dataset(split)
        assert [data[index]["target"].tolist() for index in range(len(data))] == [[label] for label in labels[split]]
        found = [words.string(data[index]["net_input.src_tokens"]) for index in range(len(data))]
        known = [" ".join(word if word in words else "<unk>" for word in text.split()) for text in texts[split]]
        assert found == known


def assert_language_modeling_task(folder: Path, sentences: dict[str, list[str]]) -> list[str]:
    """Assert that fairseq's task reads the known words as targets; return the words of the dictionary."""
    from fairseq.tasks.language_modeling import LanguageModelingTask

    import fairseq_localattn  # noqa: F401  # blocks of text need its repair of fairseq

    task = LanguageModelingTask.setup_task(Namespace(
        data=str(folder), output_dictionary_size=-1, dataset_impl=None, shorten_data_split_list="",
        shorten_method="none", tokens_per_sample=512, seed=1, sample_break_mode="eos", use_plasma_view=False,
        plasma_path=None, pad_to_fixed_length=False, pad_to_fixed_bsz=False, add_bos_token=False,
    ))  # fmt: skip
    words = task.source_dictionary
    for split in SPLITS:
        task.load_dataset(split)
        data = task.dataset(split)
        found = [words.string(data[index]["target"]) for index in range(len(data))]
        known = [" ".join(word if word in words else "<unk>" for word in text.split()) for text in sentences[split]]
        assert found == known
    return words.symbols[words.nspecial :]


def assert_translation_data(
    folder: Path, source: str, target: str, splits: dict[str, dict[str, list[str]]], bpe: str | None = None
) -> None:
    """Assert that fairseq reads the lines of `splits` (split → language → lines) in this direction.

    bpe: the subwords to be joined (fairseq's --post-process); None: the lines are subwords, and those that are not in
    the dictionary are <unk>.
    """
    from fairseq.data import Dictionary
    from fairseq.data.data_utils import post_process
    from fairseq.tasks.translation import load_langpair_dataset

    words = {lang: Dictionary.load(str(folder / f"dict.{lang}.txt")) for lang in (source, target)}
    for split, texts in splits.items():
        data = load_langpair_dataset(
            str(folder), split, source, words[source], target, words[target], combine=False, dataset_impl=None,
            upsample_primary=1, left_pad_source=True, left_pad_target=False, max_source_positions=1024,
            max_target_positions=1024,
        )  # fmt: skip
        for side, lang in (("source", source), ("target", target)):
            found = [words[lang].string(data[index][side]) for index in range(len(data))]
            expected = texts[lang]
            if bpe is None:
                known = words[lang].indices
                expected = [" ".join(x if x in known else "<unk>" for x in line.split()) for line in expected]
            else:
                found = [post_process(line, bpe) for line in found]
            assert found == expected, (split, lang)
