"""What the tests of data preparation share: running a preparation, and what fairseq's tasks make of the result."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

from support.paths import ROOT

DATA_PREP = ROOT / "data-prep"
SPLITS = ("train", "valid", "test")
# Of the caller's environment, which must not decide.
SOURCES = ("SST_", "IMDB_", "SVA_", "ONE_BILLION_", "CNNDM_", "GIGAWORD_", "ASPEC_", "NIST_", "WMT1", "IWSLT14_")


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SOURCES)}
    return kept | {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1", **more}


def call(*command: object, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(part) for part in command],
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=300,
    )


def prepare(corpus: str, out: Path, *options: object, **environment: str) -> subprocess.CompletedProcess:
    return call("bash", DATA_PREP / f"prepare_{corpus}.sh", out, "--workers", "1", *options, **environment)


def read(corpus: str, source: Path, part: Path, *options: object) -> subprocess.CompletedProcess:
    part.mkdir(exist_ok=True)
    return call(sys.executable, "-m", "corpora.text.labelled", corpus, source, part, *options)


def assert_refused(done: subprocess.CompletedProcess, *parts: str) -> None:
    """Non-zero exit and one line on stderr that has all the parts."""
    assert done.returncode != 0, done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").split("\n")[:-1]


def files_of(folder: Path) -> dict[Path, int]:
    """Each file and when it was written, but for the lock, which every run touches."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def assert_classification_task(
    folder: Path, classes: int, texts: dict[str, list[str]], labels: dict[str, list[int]]
) -> None:
    """fairseq's own task reads the folder: class k is label k, there is no other, and the known words come back."""
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
    """fairseq's own task reads the folder, the known words come back as targets; return the words of the dictionary."""
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
