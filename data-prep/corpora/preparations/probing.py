"""Constituency trees: the probing tasks that are made of them, and trees of raw text."""

from __future__ import annotations

import logging
import os
import re
import shutil
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from corpora.errors import UsageError
from corpora.preparations import texts, trees
from corpora.preparations.options import Given, Options
from corpora.preparations.steps import Preparation, Step
from corpora.preparations.texts import SPLITS
from corpora.text import streams
from corpora.text.lines import read_lines, write_lines
from corpora.tokens import moses_tokenize, subwords


def _add_files(options: Options, what: str) -> None:
    for split in SPLITS:
        options.add(split, "FILE", what, check=Path)


def _files(given: Given, what: str) -> dict[str, Path]:
    """Return the files of all splits; raises UsageError."""
    for split in SPLITS:
        file = getattr(given, split)
        if not file:
            raise UsageError(f"--{split} is missing: give the {what} of all three splits (see --help)")
        if not file.exists() and not (given.out / "raw").is_dir():
            raise UsageError(f"no file {file}: give the {what} with --{split} FILE")
    return {split: getattr(given, split) for split in SPLITS}


def _note(files: dict[str, Path]) -> str:
    return "".join(f" {split}={file.resolve()}" for split, file in files.items())


def probing(words: Sequence[object]) -> Preparation:
    """OUT/raw: the words of the trees (in the characters of Moses' normalisation), the trees, and {split}.TASK.labels.
    OUT/bin: for python -m fairseq_localattn.analysis.probing."""
    options = Options("prepare_probing", probing.__doc__)
    _add_files(options, "constituency trees, a line each or indented over several, plain or .gz")
    options.add("lang", "LANG", "language of the trees", "en")
    options.add("codes", "FILE", "BPE codes of the encoder that is to be probed, with --dict", check=Path)
    options.add("dict", "FILE", "its dictionary; without both: BPE of the training sentences", check=Path)
    options.number("bpe", 4000, "merges to learn")
    options.flag("escape", "Moses' entities (&apos;s) in the text, for an encoder that was trained on such")
    options.flag("lowercase", "lower-case the text, for an encoder that was trained on such")
    options.number("levels", 3, "levels of phrases")
    options.flag("skip-failed", "leave out what is no tree, such as (()) for a sentence that was not parsed")
    given = options.read(words)
    files = _files(given, "trees")
    if bool(given.codes) != bool(given.dict):
        raise UsageError("--codes and --dict belong together: both are the encoder's")
    done = (given.out / "bin").is_dir()
    for option in ("codes", "dict"):
        file = getattr(given, option)
        if file and not file.exists() and not done:
            raise UsageError(f"no file {file}: give the encoder's with --{option} FILE")
    if given.dict and not given.escape and not done:
        if entity := re.search(r"^&(apos|quot|amp)\S*", given.dict.read_text("utf-8"), re.MULTILINE):
            raise UsageError(
                f"{given.dict} has Moses' entities: {entity[0]}; give --escape, so that the text has them too"
            )
    own = " ".join(f"{name}={file.resolve() if (file := getattr(given, name)) else ''}" for name in ("codes", "dict"))
    skip = " skip-failed" if given.skip_failed else ""
    note = f"probing {given.lang} {own} {given.settings('bpe', 'levels', 'escape', 'lowercase')}{skip}"
    steps = [
        Step("raw", "read the trees, write text and labels", partial(_label, given, files)),
        Step("bpe", "split words into subwords", partial(_split_words, given)),
        Step("bin", "binarise", partial(_binarise, given)),
    ]
    return Preparation(given, note + _note(files), steps)


def _label(given: Given, files: dict[str, Path], part: Path) -> None:
    logging.disable(logging.INFO)  # of fairseq, which the labels' package imports
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from corpora.sources import probing

    probing.prepare(
        files, part, given.lang, escape=given.escape, lowercase=given.lowercase, skip_failed=given.skip_failed
    )


def _split_words(given: Given, part: Path) -> None:
    raw, codes = given.out / "raw", part / "codes"
    if given.codes:
        shutil.copy(given.codes, codes)
    else:
        subwords.learn([raw / f"train.{given.lang}"], codes, given.bpe)
    for split in SPLITS:
        name = f"{split}.{given.lang}"
        subwords.apply(codes, raw / name, part / name, given.workers)


def count_subwords(line: str) -> str:
    """Return the number of subwords of each word; all but the last one of a word end in @@."""
    return " ".join(str(len(word.split())) for word in re.findall(r"(?:\S*@@ )*\S+", line))


def _binarise(given: Given, part: Path) -> None:
    """fairseq names the files by both languages, with None for the missing one: train.en-None.en."""
    folder = given.out / "bpe"
    names = {folder / f"{split}.{given.lang}": split for split in SPLITS}
    words = ["--only-source", "--source-lang", given.lang, *(["--srcdict", given.dict] if given.dict else [])]
    said = texts.preprocess(given, part, list(names), [*words, *texts.prefixes(folder, SPLITS)])
    for file, split in names.items():
        given.say(f"{split}: {said[file]}")
        for labels in (given.out / "raw").glob(f"{split}.*.labels"):
            shutil.copy(labels, part)
        write_lines(part / f"{split}.words", (count_subwords(line) for _, line in read_lines(file)))
    options = ["--lang", given.lang, "--texts", folder, "--trees", given.out / "raw", "--levels", given.levels]
    trees.run_binarise(given, part, Path(os.devnull), options)


def parse_text(words: Sequence[object]) -> Preparation:
    """From raw text to constituency trees. OUT/trees/{train,valid,test}.mrg: a bracketing a line over the Moses tokens
    of OUT/tok, an empty line where the parser found none. It is what prepare_probing.sh and $PROBING_TREES take."""
    options = Options("parse_text", parse_text.__doc__)
    _add_files(options, "raw text, a sentence a line, plain or .gz")
    options.add("lang", "LANG", "its language", "en")
    models = "stanza's models, such as train_parser.py makes (default: those that stanza.download has installed)"
    options.add("parser", "DIR", models, check=Path)
    given = options.read(words)
    files = _files(given, "text")
    trees.check_parser(given.parser)

    def read(part: Path) -> None:
        for split, file in files.items():
            streams.write([file], part / f"{split}.{given.lang}", streams.Rules())

    def tokenise(part: Path) -> None:
        for split in SPLITS:
            name = f"{split}.{given.lang}"
            moses_tokenize.tokenise(given.out / "raw" / name, part / name, given.lang, given.workers)

    def parse(part: Path) -> None:
        for split in SPLITS:
            trees.parse_split(given, part, split, given.lang)
        for split in SPLITS:
            (part / f"{split}.{given.lang}.tree").rename(part / f"{split}.mrg")

    steps = [
        Step("raw", "read and check the text", read),
        Step("tok", "tokenise", tokenise, resumes=True),
        Step("trees", "parse", parse, resumes=True),
    ]
    parser = given.parser.resolve() if given.parser else ""
    return Preparation(given, f"text {given.lang} parser={parser}{_note(files)}", steps, result="trees")
