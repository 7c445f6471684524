"""Preparation of text for language models: any corpus, the One Billion Word layout, the dictionary, long commands."""

from __future__ import annotations

import pytest

from corpora.text import streams, watch
from corpora.tokens import dictionary
from support.corpora.prep import SPLITS, assert_binarised, assert_refused, attempt, lines_of, prepare, prepare_until
from support.corpora.preparations import LM_NUMBERS, RELEASE, lm_sentence, prepared


@prepared("lm")
def test_lm_serves_the_task(done):
    for split, numbers in LM_NUMBERS.items():
        sentences = [lm_sentence(number) for number in numbers]
        words = assert_binarised(done.out / f"bin/{split}", done.out / "bin/dict.txt", sentences)
    # six words, and as many made-up ones as fill up to 16 with fairseq's four symbols
    assert words == ["a", "é", "b", "c", "d", "e"] + [f"madeupword{number:04d}" for number in range(6)]


def test_layouts_with_blank_lines_and_headings(tmp_path):
    text = " \n = Robert Boulter = \n \n Robert Boulter is an English <unk> . \n = = Career = = \n a = b \n \n"
    lines = [line.strip() for line in text.splitlines()]
    for split, name in zip(SPLITS, ("wiki.{}.tokens", "ptb.{}.txt", "{}.en"), strict=True):
        (tmp_path / name.format(split)).write_text(text)
    done = prepare("lm", tmp_path / "out", "--local", tmp_path)
    assert_refused(done, "wiki.train.tokens:1: empty line; remove it, or give --blank-lines keep or drop")
    made = {"keep": lines, "drop": [line for line in lines if line], "drop --no-headings": [lines[3], lines[5]]}
    for options, expected in made.items():
        out = tmp_path / options
        prepare_until("raw", "lm", out, "--local", tmp_path, "--blank-lines", *options.split())
        assert [lines_of(out / f"raw/{split}.en") for split in SPLITS] == [expected] * 3
    done = prepare("lm", out, "--local", tmp_path, "--blank-lines", "keep")
    assert_refused(done, "was prepared with 'lm lang=en words=0 min-count=1 blank-lines=drop no-headings local=")


@prepared("1bw")
def test_1bw_serves_the_task(done):
    release = done.source / RELEASE
    texts = {"train": sorted((release / "training-monolingual.tokenized.shuffled").iterdir())}
    for number, split in enumerate(("test", "valid")):
        held_out = release / "heldout-monolingual.tokenized.shuffled"
        texts[split] = [held_out / f"news.en.heldout-0000{number}-of-00050"]
    for split, count in (("train", 396), ("valid", 30), ("test", 30)):
        sentences = lines_of(done.out / f"raw/{split}.en")
        assert sentences == [line for path in texts[split] for line in lines_of(path)] and len(sentences) == count
        assert len(assert_binarised(done.out / f"bin/{split}", done.out / "bin/dict.txt", sentences)) == 4


def test_official_text_keeps_odd_lines_and_has_its_number(tmp_path):
    """What is wrong in an official corpus is not for us to mend, but fairseq must see as many lines as we do."""
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"one two\n\nthree\rfour\na <pad> b\n1 < 2\n")
    copy = [streams.write, [source, source], target, streams.Rules(lenient=True)]
    said = "out: 10 sentences, 20 words (official: 10 sentences, 3 words); 6 of them empty, with a carriage return"
    assert said in attempt(*copy, (10, 3), exact=True).stdout
    assert target.read_bytes() == 2 * b"one two\n\nthree four\na <pad> b\n1 < 2\n"
    assert_refused(attempt(*copy, (3, 3), exact=True), "out: 10 sentences (official: 3 sentences, 3 words)")
    assert_refused(attempt(streams.write, [source], tmp_path / "strict", streams.Rules()), "in:2: empty line")


@pytest.mark.parametrize(("words", "min_count"), [(0, 1), (7, 1), (7, 20)])
def test_dictionary_is_the_one_that_fairseq_makes(tmp_path, words, min_count):
    from fairseq.tasks.fairseq_task import FairseqTask

    text, made = tmp_path / "text", tmp_path / "dict.txt"
    lines = [lm_sentence(number) for number in range(1, 61)] + ["a <unk> <unk> <s>\u00a0b", "Z z madeupword0000"]
    text.write_text("".join(line + "\n" for line in lines), "utf-8")
    dictionary.make(text, made, words, min_count)
    theirs = FairseqTask.build_dictionary([str(text)], threshold=min_count, nwords=words + 4 if words else -1)
    theirs.save(str(tmp_path / "theirs.txt"))
    assert made.read_text("utf-8") == (tmp_path / "theirs.txt").read_text("utf-8")


def test_dictionary_without_words_is_refused(tmp_path):
    (tmp_path / "text").write_text("one two\n")
    done = attempt(dictionary.make, tmp_path / "text", tmp_path / "dict", min_count=2)
    assert_refused(done, "text: no word occurs 2 times: lower --min-count")


def test_watch_tells_the_size_and_hands_on_the_exit_status(tmp_path, capsys):
    command = ["bash", "-c", f"head -c 5000000 /dev/zero > {tmp_path}/big; sleep 0.3; echo no; exit 1"]
    log = tmp_path / "log"
    assert watch.run_logged("copy", tmp_path, log, command, seconds=0.1) == 1
    assert "copy: 5 MB so far" in capsys.readouterr().out and log.read_text() == "no\n"
