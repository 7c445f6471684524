"""Preparation of text for language models: any corpus, the One Billion Word layout, the dictionary, long commands."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tracemalloc
from pathlib import Path

import pytest

from corpora.text import streams, watch
from corpora.tokens import dictionary
from support.prep import SPLITS, assert_language_modeling_task, assert_refused, call, prepare

BILLION = "1-billion-word-language-modeling-benchmark-r13output"


def sentence(number: int) -> str:
    """Words of falling frequency: a in all, b in every second, c in every third sentence … and one that is unique."""
    return " ".join([word for place, word in enumerate("abcdefgh", 1) if number % place == 0] + [f"n{number}", "é"])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> tuple[Path, dict[str, list[str]]]:
    folder = tmp_path_factory.mktemp("lm")
    numbers = {"train": range(1, 61), "valid": range(30, 33), "test": range(100, 105)}
    sentences = {split: [sentence(number) for number in numbers[split]] for split in SPLITS}
    for split in SPLITS:
        text = "".join(line + "\n" for line in sentences[split]).encode()
        if split == "valid":
            (folder / "valid.en.gz").write_bytes(gzip.compress(text))
        else:
            (folder / f"{split}.en").write_bytes(text)
    return folder, sentences


@pytest.fixture(scope="module")
def lm_data(corpus, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("lm_data") / "out"
    done = prepare("lm", out, "--local", corpus[0], "--words", "6", "--workers", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"ready: {out}/bin\n")
    assert "train.en: 60 sentences, 2" in done.stdout
    return out


def test_lm_serves_the_task(corpus, lm_data):
    words = assert_language_modeling_task(lm_data / "bin", corpus[1])
    # six words, and as many without meaning as fill up to 16 with fairseq's four symbols
    assert words == ["a", "é", "b", "c", "d", "e"] + [f"madeupword{number:04d}" for number in range(6)]


def test_lm_second_run_changes_nothing(corpus, lm_data):
    before = {path: path.stat().st_mtime_ns for path in lm_data.rglob("*") if path.is_file() and path.name != ".lock"}
    assert prepare("lm", lm_data, "--local", corpus[0], "--words", "6").returncode == 0
    assert_refused(prepare("lm", lm_data, "--local", corpus[0]), "words=6", "words=0", "give another folder")
    assert before == {path: path.stat().st_mtime_ns for path in before}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "valid.de.gz: cannot be read: No such file"),
        (b"", "valid.de: is empty"),
        (b"ein Satz\n\nnoch einer\n", "valid.de:2: empty line"),
        (b"ein Satz\nnoch\reiner\n", "valid.de:2: carriage return"),
        (b"ein Satz\nzwei \xff\n", "valid.de:2: invalid UTF-8 at byte 6"),
        (b"ein Satz\nabgeschn", "valid.de:2: no newline at the end"),
        (b"ein <unk> Satz\n<pad> zwei\n", "valid.de:2: the word <pad> is a symbol of fairseq's"),
    ],
)
def test_bad_text_names_file_and_line(tmp_path, content, message):
    for name in ("train", "test"):
        (tmp_path / f"{name}.de").write_text("ein Satz\n")
    if content is not None:
        (tmp_path / "valid.de").write_bytes(content)
    out = tmp_path / "out"
    assert_refused(prepare("lm", out, "--local", tmp_path, "--lang", "de"), message)
    assert not (out / "raw").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no corpus given: --local DIR"),
        (["--local", "/nowhere"], "no folder /nowhere"),
        (["--local", ".", "--words", "many"], "--words needs a number from 0"),
        (["--local", ".", "--lang", "../en"], "--lang needs the ending"),
    ],
)
def test_bad_options(tmp_path, options, message):
    assert_refused(prepare("lm", tmp_path / "out", *options), message)
    assert not (tmp_path / "out").exists()


# One Billion Word


@pytest.fixture(scope="module")
def billion(tmp_path_factory) -> tuple[Path, dict[str, list[str]]]:
    """The layout of the release, with one or two sentences a file."""
    folder = tmp_path_factory.mktemp("1bw") / BILLION
    training, heldout = (folder / f"{kind}-monolingual.tokenized.shuffled" for kind in ("training", "heldout"))
    training.mkdir(parents=True)
    heldout.mkdir()
    sentences: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for number in range(1, 100):
        lines = [sentence(number)] * (1 + number % 2)
        sentences["train"] += lines
        (training / f"news.en-{number:05d}-of-00100").write_text("".join(line + "\n" for line in lines), "utf-8")
    for number, split in ((0, "test"), (1, "valid"), (2, None)):
        line = f"a b held{number}"
        (heldout / f"news.en.heldout-{number:05d}-of-00050").write_text(f"{line}\n")
        if split:
            sentences[split].append(line)
    return folder, sentences


@pytest.fixture(scope="module")
def billion_data(billion, tmp_path_factory) -> Path:
    """By download: an archive that a stopped download began is continued."""
    folder = tmp_path_factory.mktemp("1bw_data")
    archive = folder / "corpus.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(billion[0], BILLION)
    out = folder / "out"
    part = out / f"download/{BILLION}.tar.gz.part"
    assert_refused(prepare("1bw", out, ONE_BILLION_URL=(folder / "none").as_uri()), "failed", "run again to continue")
    part.parent.mkdir(exist_ok=True)
    part.write_bytes(archive.read_bytes()[:300])
    done = prepare("1bw", out, "--words", "4", ONE_BILLION_URL=archive.as_uri())
    assert done.returncode == 0, done.stderr
    assert "train.en: 149 sentences, " in done.stdout
    assert "(official: 30,301,028 sentences, 768,646,526 words)" in done.stdout
    assert (out / f"download/{BILLION}.tar.gz").read_bytes() == archive.read_bytes()
    assert not (out / "download/corpus").exists()
    return out


def test_1bw_serves_the_task(billion, billion_data):
    words = assert_language_modeling_task(billion_data / "bin", billion[1])
    assert words == ["a", "é", "c", "b"]  # more of the odd sentences, so c before b; no made-up word is needed


def test_1bw_from_a_local_folder_that_is_not_complete(billion, tmp_path):
    folder = tmp_path / BILLION
    shutil.copytree(billion[0], folder)
    lost = folder / "training-monolingual.tokenized.shuffled/news.en-00042-of-00100"
    lost.unlink()
    for given in (folder, tmp_path):  # the folder itself, or the one it is in
        done = prepare("1bw", tmp_path / "out", "--local", given)
        assert_refused(done, "no file", "news.en-00042-of-00100, plain or .gz: the corpus is not complete")
    assert not (tmp_path / "out/raw").exists()


def test_lenient_keeps_and_counts_odd_lines(tmp_path):
    """What is wrong in an official corpus is not for us to mend, but fairseq must see as many lines as we do."""
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"one two\n\nthree\rfour\na <pad> b\n1 < 2\n")
    count = streams.copy([source, source], target, lenient=True)
    assert (count.lines, count.words, count.odd) == (10, 2 * 10, 6)
    assert target.read_bytes() == 2 * b"one two\n\nthree four\na <pad> b\n1 < 2\n"
    with pytest.raises(streams.DataError, match="in:2: empty line"):
        streams.copy([source], tmp_path / "strict")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_exact_refuses_another_number_of_sentences(tmp_path):
    (tmp_path / "in").write_text("one two\nthree\n")
    arguments = [sys.executable, "-m", "corpora.text.streams", tmp_path / "out", tmp_path / "in", "--official"]
    assert_refused(call(*arguments, 3, 3, "--exact"), "out: 2 sentences (official: 3 sentences, 3 words)")
    assert call(*arguments, 2, 3, "--exact").stdout == "out: 2 sentences, 3 words (official: 2 sentences, 3 words)\n"


def test_copy_keeps_no_text_in_memory(tmp_path):
    source = tmp_path / "in.gz"
    source.write_bytes(gzip.compress(b"a sentence of the corpus , one of very many .\n" * 50_000))
    tracemalloc.start()
    try:
        for lenient in (False, True):
            assert streams.copy([source], tmp_path / "out", lenient).lines == 50_000
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
    assert (tmp_path / "out").stat().st_size > 2_000_000


# The dictionary


@pytest.mark.parametrize(("words", "min_count"), [(0, 1), (0, 2), (7, 1), (7, 20), (100_000, 3)])
def test_dictionary_is_the_one_that_fairseq_makes(tmp_path, words, min_count):
    from fairseq.tasks.fairseq_task import FairseqTask

    text, made = tmp_path / "text", tmp_path / "dict.txt"
    lines = [sentence(number) for number in range(1, 61)] + ["a <unk> <unk> <s>\u00a0b", "Z z madeupword0000"]
    text.write_text("".join(line + "\n" for line in lines), "utf-8")
    options = ["--words", words, "--min-count", min_count]
    done = call(sys.executable, "-m", "corpora.tokens.dictionary", text, made, *options)
    assert done.returncode == 0, done.stderr
    theirs = FairseqTask.build_dictionary([str(text)], threshold=min_count, nwords=words + 4 if words else -1)
    theirs.save(str(tmp_path / "theirs.txt"))
    assert made.read_text("utf-8") == (tmp_path / "theirs.txt").read_text("utf-8")


def test_dictionary_without_words_is_refused(tmp_path):
    (tmp_path / "text").write_text("one two\n")
    done = call(
        sys.executable, "-m", "corpora.tokens.dictionary", tmp_path / "text", tmp_path / "dict", "--min-count", 2
    )
    assert_refused(done, "text: no word occurs 2 times: lower --min-count")
    limited = dictionary.dictionary_of(dictionary.count_words(["one two one"]), words=1)
    assert (limited.symbols[4], limited.count[4], "two" in limited, len(limited) % 8) == ("one", 2, False, 0)


# watch.py


def test_watch_tells_the_size_and_hands_on_the_exit_status(tmp_path, capfd):
    code = f"open({str(tmp_path / 'big')!r}, 'wb').write(bytes(5_000_000)); import time; time.sleep(1); exit('no')"
    log = tmp_path / "log"
    assert watch.watch("copy", tmp_path, log, [sys.executable, "-c", code], seconds=0.3) == 1
    out, err = capfd.readouterr()
    assert "copy: 5 MB so far" in out and not err
    assert log.read_text() == "no\n"


def test_watch_takes_its_command_with_it(tmp_path):
    """Ended by a signal, it leaves no child that goes on writing."""
    code = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()) + '.'); time.sleep(60)"
    command = [
        sys.executable,
        "-m",
        "corpora.text.watch",
        "copy",
        tmp_path,
        tmp_path / "log",
        sys.executable,
        "-c",
        code,
    ]
    process = subprocess.Popen([str(part) for part in command])
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("."):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()[:-1]), 0)
