"""Constituency trees: phrases of them in OUT/bin, the probing tasks that are made of them, and trees of raw text.

    OUT/tree     {train,valid,test}.LANG.tree: a bracketing for each line of OUT/tok, an empty line where there is none
    OUT/phrases  report.txt on the phrases and tags of LANG's text, which are written to OUT/bin

These two steps have options of their own (OUT/trees.txt), so that they can be added to prepared data.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from corpora.errors import UsageError
from corpora.preparations.options import Given, Options
from corpora.preparations.steps import Preparation, Step
from corpora.preparations.texts import Pair, prefixes, preprocess, python, tokenise
from corpora.text import streams
from corpora.text.lines import SPLITS, find_file, read_lines, write_lines
from corpora.text.linewise import change_file
from corpora.text.watch import watched
from corpora.tokens import moses_tokenize, subwords
from corpora.trees import parse


def check(given: Given, *languages: str) -> None:
    """Raise UsageError for options of trees that do not go together."""
    if not given.trees:
        if given.parser or given.tree_files:
            raise UsageError("--parser and --tree-files need --trees LANGUAGE, the language of the trees")
        return
    if given.trees not in languages:
        raise UsageError(f"--trees {given.trees}: no such language here, there is: {' '.join(languages)}")
    if given.parser and given.tree_files:
        raise UsageError("--parser or --tree-files, please, not both")
    if (given.out / "phrases").is_dir():  # what they were made of is not needed again
        return
    check_parser(given.parser)
    if given.tree_files and not given.tree_files.is_dir():
        raise UsageError(f"--tree-files {given.tree_files}: no such folder")


def check_parser(parser: Path | None) -> None:
    """Raise UsageError where a folder of models is given and is not there."""
    if parser and not parser.is_dir():
        raise UsageError(f"--parser {parser}: no such folder; train models with data-prep/train_parser.py")


def origin(given: Given) -> str:
    """Return the options of the trees; "" where there are none."""
    if not given.trees:
        return ""
    if given.tree_files:
        return f"trees={given.trees} tree-files={given.tree_files.resolve()}"
    return f"trees={given.trees} parser={given.parser.resolve() if given.parser else ''}"


def steps(given: Given, pair: Pair, cased: Path | None = None, kind: str = "subword_nmt") -> list[Step]:
    """Return the steps of --trees, if it is given.

    cased: if OUT/tok is lower-cased, the folder of its cased text, which is parsed instead; its tokens are equal.
    kind: how OUT/bpe splits words.
    """
    lang = given.trees
    if not lang:
        return []

    def take(part: Path) -> None:  # the step of the phrases checks them
        for split in pair.splits:
            name = f"{split}.{lang}.tree"
            file = find_file(given.tree_files, name)
            if not file.exists():
                where = "nor one with .gz; one bracketing a line of the tokenised text"
                raise UsageError(f"{given.tree_files} has no {name}, {where}")
            write_lines(part / name, (line for _, line in read_lines(file, open_end=True)))

    def parse_all(part: Path) -> None:
        for split in pair.splits:
            parse_split(given, part, split, lang, cased=cased)

    if given.tree_files:
        tree = Step("tree", f"take the trees of {lang}", take)
    else:
        tree = Step("tree", f"parse {lang}", parse_all, resumes=True)
    return [tree, phrases(given, given.out / "tree", kind)]


def parse_split(given: Given, part: Path, split: str, lang: str, *, cased: Path | None = None) -> None:
    """Parse the tokens of a split into PART/SPLIT.LANG.tree, unless it is there; see steps()."""
    tree = part / f"{split}.{lang}.tree"
    if tree.exists():
        return
    text = (part if cased else given.out / "tok") / f"{split}.{lang}"
    if cased:
        moses_tokenize.tokenise(cased / text.name, text, lang, given.workers)
    parse.parse_file(text, tree, lang=lang, models=given.parser, workers=given.workers)
    if cased:
        text.unlink()


def phrases(given: Given, trees: Path, kind: str = "subword_nmt") -> Step:
    """Return the step that writes the phrases of OUT/bpe from TREES/SPLIT.LANG.tree to OUT/bin."""

    def fill(part: Path) -> None:
        options = ["--lang", given.trees, "--texts", given.out / "bpe", "--trees", trees, "--subwords", kind]
        run_binarise(given, given.out / "bin", part / "report.txt", options)

    return Step("phrases", f"binarise the phrases of {given.trees}", fill)


def run_binarise(given: Given, folder: Path, report: Path, options: list[object]) -> None:
    """Run fairseq_localattn.phrases.binarize, whose output is kept as well; its errors are lines of its own."""
    words = [python(), "-W", "ignore", "-m", "fairseq_localattn.phrases.binarize", folder, *options]
    command = [str(word) for word in [*words, "--workers", given.workers]]
    with watched("phrases", folder):
        done = subprocess.run(command, capture_output=True, encoding="utf-8")
    print(done.stdout, end="", flush=True)
    report.write_text(done.stdout, "utf-8")
    errors = done.stderr
    if source := getattr(given, "tree_files", None):  # where they are to be mended: OUT/tree is a copy, taken anew
        for copy in (given.out / "tree").iterdir():
            errors = errors.replace(f"{copy}:", f"{find_file(source, copy.name)}:")
    sys.stderr.write(errors)
    if done.returncode:
        sys.exit(done.returncode)


# The probing tasks


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


def probing(options: Options, words: Sequence[object]) -> Preparation:
    """OUT/raw: the words of the trees (in the characters of Moses' normalisation), the trees, and {split}.TASK.labels.
    OUT/bin: for python -m fairseq_localattn.analysis.probing."""
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
    read = [*files.values(), *filter(None, (given.codes, given.dict))]
    return Preparation(given, note + _note(files), steps, texts=read)


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
        change_file(raw / name, part / name, partial(subwords.encoder, codes), given.workers, allow_empty=True)


def count_subwords(line: str) -> str:
    """Return the number of subwords of each word; all but the last one of a word end in @@."""
    return " ".join(str(len(word.split())) for word in re.findall(r"(?:\S*@@ )*\S+", line))


def _binarise(given: Given, part: Path) -> None:
    """fairseq names the files by both languages, with None for the missing one: train.en-None.en."""
    folder = given.out / "bpe"
    names = {folder / f"{split}.{given.lang}": split for split in SPLITS}
    words = ["--only-source", "--source-lang", given.lang, *(["--srcdict", given.dict] if given.dict else [])]
    said = preprocess(given, part, list(names), [*words, *prefixes(folder, SPLITS)])
    for file, split in names.items():
        given.say(f"{split}: {said[file]}")
        for labels in (given.out / "raw").glob(f"{split}.*.labels"):
            shutil.copy(labels, part)
        write_lines(part / f"{split}.words", (count_subwords(line) for _, line in read_lines(file)))
    options = ["--lang", given.lang, "--texts", folder, "--trees", given.out / "raw", "--levels", given.levels]
    run_binarise(given, part, Path(os.devnull), options)


def parse_text(options: Options, words: Sequence[object]) -> Preparation:
    """From raw text to constituency trees. OUT/trees/{train,valid,test}.mrg: a bracketing a line over the Moses tokens
    of OUT/tok, an empty line where the parser found none. It is what prepare_probing.sh and $PROBING_TREES take."""
    _add_files(options, "raw text, a sentence a line, plain or .gz")
    options.add("lang", "LANG", "its language", "en")
    models = "stanza's models, such as train_parser.py makes (default: those that stanza.download has installed)"
    options.add("parser", "DIR", models, check=Path)
    given = options.read(words)
    files, names = _files(given, "text"), [(f"{split}.{given.lang}", split, given.lang) for split in SPLITS]
    check_parser(given.parser)

    def read(part: Path) -> None:
        for split, file in files.items():
            streams.write([file], part / f"{split}.{given.lang}", streams.Rules())

    def parse_all(part: Path) -> None:
        for split in SPLITS:
            parse_split(given, part, split, given.lang)
        for split in SPLITS:
            (part / f"{split}.{given.lang}.tree").rename(part / f"{split}.mrg")

    steps = [
        Step("raw", "read and check the text", read),
        Step("tok", "tokenise", partial(tokenise, given, names, given.out / "raw"), resumes=True),
        Step("trees", "parse", parse_all, resumes=True),
    ]
    parser = given.parser.resolve() if given.parser else ""
    note = f"text {given.lang} parser={parser}{_note(files)}"
    return Preparation(given, note, steps, texts=list(files.values()), result="trees")
