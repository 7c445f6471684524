"""Preparations of one text a line, with labels (classification) or without (language models). Their OUT:

OUT/raw   {train,valid,test}.text and .label, aligned; labels.txt: the labels in order   (language models: {…}.LANG)
OUT/tok   Moses tokens, if the source is not tokenised      OUT/dict  dict.txt, the words of the training text
OUT/bin   input0/ and label/ for fairseq's task sentence_prediction                      (language models: no folders)
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from corpora.arguments import at_least
from corpora.errors import UsageError
from corpora.preparations.fetch import local_or_members, obtain
from corpora.preparations.options import Given, Options
from corpora.preparations.steps import Preparation, Step
from corpora.preparations.texts import prefixes, preprocess, tokenise
from corpora.sources import imdb as imdb_source
from corpora.sources import labelled
from corpora.sources import sst as sst_source
from corpora.sources import sva as sva_source
from corpora.text import streams
from corpora.text.lines import SPLITS, find_file
from corpora.tokens import dictionary

MOST_WORDS = "size of the dictionary: the N most frequent words, without fairseq's own symbols; 0: all"


def _note(given: Given) -> str:
    return f"{' checksums=0' if given.no_checksums else ''} local={given.origin()}"


def _binarise(given: Given, part: Path, *, folder: Path, suffix: str, dictionary: Path) -> None:
    """Run fairseq-preprocess on FOLDER/{train,valid,test}.SUFFIX with an existing dictionary."""
    names = {folder / f"{split}.{suffix}": split for split in SPLITS}
    said = preprocess(
        given, part, list(names), ["--only-source", "--srcdict", dictionary, *prefixes(folder, SPLITS, f".{suffix}")]
    )
    for path in said if suffix != "label" else ():
        given.say(f"{names[path]}: {said[path]}")


def _count_words(text: Path, words: int, min_count: int) -> Step:
    return Step("dict", "count the words", lambda part: dictionary.make(text, part / "dict.txt", words, min_count))


def _labelled(given: Given, texts: Path, sentences: Path) -> list[Step]:
    """Return the steps after the tokens; sentences: text from which to count words.

    The labels' dictionary is given: class k is the label in its line k, and fairseq adds no made-up classes.
    """

    def fill(part: Path) -> None:
        raw = given.out / "raw"
        _binarise(given, part / "input0", folder=texts, suffix="text", dictionary=given.out / "dict/dict.txt")
        _binarise(given, part / "label", folder=raw, suffix="label", dictionary=raw / "labels.txt")

    return [_count_words(sentences, 0, given.min_count), Step("bin", "binarise", fill)]


SST = "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"


def sst(options: Options, words: Sequence[object]) -> Preparation:
    """Train 8,544 sentences, valid = dev 1,101, test 2,210; with two classes 6,920, 872, 1,821; class k is label k."""
    options.corpus("SST", "folder with the trees, {train,dev,test}.txt, plain or .gz")
    options.add("classes", "N", "as labelled, or 2: negative and positive, no neutral texts", "5", ["5", "2"])
    options.flag("phrases", "train on every distinct phrase of the training trees, not on the sentences alone")
    options.number("min-count", 2, "words that are rarer in the training sentences become <unk>")
    given = options.read(words)
    given.need_local("{train,dev,test}.txt")

    def read(part: Path) -> None:
        found = local_or_members(given, SST, "trees")
        folder = found.path if given.local else found.path / "trees"
        classes, train = int(given.classes), "sentences" if given.phrases else "train"
        official = {train if split == "train" else split: n for split, n in sst_source.OFFICIAL[classes].items()}
        examples = sst_source.read(folder, classes, given.phrases)
        labelled.prepare(part, classes, examples, official, exact=found.verified)

    raw = given.out / "raw"
    steps = [
        Step("raw", "read and check the trees", read, reads=True),
        *_labelled(given, raw, raw / ("sentences.text" if given.phrases else "train.text")),
    ]
    return Preparation(given, f"sst {given.settings('classes', 'phrases', 'min-count')}{_note(given)}", steps)


IMDB = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"


def imdb(options: Options, words: Sequence[object]) -> Preparation:
    """Label 0 negative, 1 positive. Reviews have up to 2,500 words or so: train with --shorten-method truncate."""
    options.corpus("IMDB", "folder aclImdb with {train,test}/{pos,neg}/ID_RATING.txt, or the folder it is in")
    options.number("valid", 1000, "validation reviews of each class: the last N training reviews by their file names")
    options.number("min-count", 5, "words that are rarer in the training text become <unk>")
    given = options.read(words)
    given.need_local("aclImdb")

    def read(part: Path) -> None:
        members = [f"aclImdb/{part}/{kind}" for part in ("train", "test") for kind in ("pos", "neg")]
        found = local_or_members(given, IMDB, *members)
        examples, official = imdb_source.read(found.path, given.valid), imdb_source.official(given.valid)
        labelled.prepare(part, 2, examples, official, exact=found.verified)

    tok, names = given.out / "tok", [(f"{split}.text", split, "en") for split in SPLITS]
    steps = [
        Step("raw", "read and check the reviews", read, reads=True),
        Step("tok", "tokenise", partial(tokenise, given, names, given.out / "raw"), resumes=True),
        *_labelled(given, tok, tok / "train.text"),
    ]
    return Preparation(given, f"imdb valid={given.valid} min-count={given.min_count}{_note(given)}", steps)


# The address in the README of github.com/TalLinzen/rnn_agreement (an earlier one:
# http://tallinzen.net/media/rnn_agreement/agr_50_mostcommon_10K.tsv.gz).
SVA = "https://www.dropbox.com/s/5axdu3q9jkxzjy8/agr_50_mostcommon_10K.tsv.gz?dl=1"
SVA_TABLE = "agr_50_mostcommon_10K.tsv"


def sva(options: Options, words: Sequence[object]) -> Preparation:
    """The text ends before the verb; label 0: the verb is singular (VBZ), 1: plural (VBP). Rare words are tags."""
    options.corpus("SVA", f"folder with {SVA_TABLE}, plain or .gz")
    options.number("seed", 1, "seed of the division into train (9 %%), valid (1 %%) and test (90 %%), as in the paper")
    options.number("min-count", 1, "words that are rarer in the training text become <unk>")
    given = options.read(words)
    given.need_local(SVA_TABLE)

    def read(part: Path) -> None:
        folder = given.local or obtain(given, SVA).path.parent
        labelled.prepare(part, 2, sva_source.read(find_file(folder, SVA_TABLE), given.seed), {})

    raw = given.out / "raw"
    steps = [
        Step("raw", "read, check and divide the sentences", read),
        *_labelled(given, raw, raw / "train.text"),
    ]
    return Preparation(given, f"sva seed={given.seed} min-count={given.min_count}{_note(given)}", steps)


# Language models


def _language_model(given: Given, lang: str, min_count: int) -> list[Step]:
    raw, words = given.out / "raw", given.out / "dict/dict.txt"
    binarise = partial(_binarise, given, folder=raw, suffix=lang, dictionary=words)
    return [_count_words(raw / f"train.{lang}", given.words, min_count), Step("bin", "binarise", binarise)]


RELEASE = "1-billion-word-language-modeling-benchmark-r13output"
ONE_BILLION = f"http://www.statmt.org/lm-benchmark/{RELEASE}.tar.gz"
TRAINING, HELD_OUT = "training-monolingual.tokenized.shuffled", "heldout-monolingual.tokenized.shuffled"
# Lines and words of the 99 files by `wc`; TensorFlow Datasets (lm1b) has the same number of lines.
ONE_BILLION_COUNTS = (30_301_028, 768_646_526)


def one_billion(options: Options, words: Sequence[object]) -> Preparation:
    """Train: all 99 files; valid and test: the files 00001 and 00000 of 00050 that are held out. 12 GB of disk."""
    options.corpus("ONE_BILLION", f"folder {RELEASE}, or the folder it is in")
    options.add("words", "N", MOST_WORDS, 32000, at_least(0))
    given = options.read(words)
    given.need_local(RELEASE)
    steps = [
        Step("raw", "read and check the text", partial(_read_one_billion, given), reads=True),
        *_language_model(given, "en", 1),
    ]
    return Preparation(given, f"1bw words={given.words}{_note(given)}", steps)


def _read_one_billion(given: Given, part: Path) -> None:
    folder, verified = local_or_members(given, ONE_BILLION, f"{RELEASE}/{TRAINING}", f"{RELEASE}/{HELD_OUT}")
    if (folder / RELEASE).is_dir():
        folder = folder / RELEASE
    files = [find_file(folder / TRAINING, f"news.en-{number:05}-of-00100") for number in range(1, 100)]
    files += [find_file(folder / HELD_OUT, f"news.en.heldout-{number:05}-of-00050") for number in (1, 0)]
    for file in files:  # all must exist before the first one is read, which takes minutes
        if not file.exists():
            raise UsageError(f"no file {file}, plain or .gz: the corpus is not complete")
    rules = streams.Rules(lenient=True)
    streams.write(files[:99], part / "train.en", rules, ONE_BILLION_COUNTS, exact=verified)
    for split, file in zip(("valid", "test"), files[99:], strict=True):
        streams.write([file], part / f"{split}.en", rules)


def lm(options: Options, words: Sequence[object]) -> Preparation:
    """OUT/bin is for fairseq's task language_modeling."""
    names = "{train,valid,test}.LANG, wiki.{train,valid,test}.tokens or ptb.{train,valid,test}.txt"
    options.add("local", "DIR", f"folder with {names}: tokenised text, a sentence a line, plain or .gz", check=Path)
    blank = "refuse, keep (each is one </s>, as published perplexities of WikiText count it) or drop"
    options.add("blank-lines", "X", blank, "refuse", streams.BLANK_LINES)
    options.flag("no-headings", 'leave out headings as WikiText has them, "= Title ="')
    options.add("lang", "LANG", "ending of the files", "en", _ending)
    options.add("words", "N", MOST_WORDS, 0, at_least(0))
    options.number("min-count", 1, "words rarer than this become <unk>")
    given = options.read(words)
    if not given.local:
        raise UsageError(f"no corpus given: --local DIR, the folder with {{train,valid,test}}.{given.lang}")
    given.need_local(f"{{train,valid,test}}.{given.lang}")
    layout = "" if given.blank_lines == "refuse" else f" blank-lines={given.blank_lines}"
    layout += " no-headings" if given.no_headings else ""
    files = {split: _split_of(given.local, split, given.lang) for split in SPLITS}
    rules = streams.Rules(words=True, blank_lines=given.blank_lines, no_headings=given.no_headings)

    def read(part: Path) -> None:
        for split, file in files.items():
            streams.write([file], part / f"{split}.{given.lang}", rules)

    steps = [
        Step("raw", "read and check the text", read),
        *_language_model(given, given.lang, given.min_count),
    ]
    note = f"lm lang={given.lang} words={given.words} min-count={given.min_count}{layout} local={given.origin()}"
    return Preparation(given, note, steps, texts=list(files.values()))


def _ending(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", text):
        raise argparse.ArgumentTypeError(f"needs the ending of the files, such as en, got '{text}'")
    return text


def _split_of(folder: Path, split: str, lang: str) -> Path:
    """Return the text of a split, by the names of --help."""
    files = [find_file(folder, name) for name in (f"{split}.{lang}", f"wiki.{split}.tokens", f"ptb.{split}.txt")]
    return next((file for file in files if file.exists()), files[0])
