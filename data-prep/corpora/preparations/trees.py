"""Phrases that come from constituency trees, in OUT/bin.

    OUT/tree     {train,valid,test}.LANG.tree: a bracketing for each line of OUT/tok, an empty line where there is none
    OUT/phrases  report.txt on the phrases and tags of LANG's text, which are written to OUT/bin

These two steps have options of their own (OUT/trees.txt), so that they can be added to prepared data.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
from pathlib import Path

from corpora.errors import UsageError
from corpora.preparations.options import Given
from corpora.preparations.steps import Step
from corpora.preparations.texts import Pair, python
from corpora.text.lines import find_file
from corpora.tokens import moses_tokenize
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


def steps(given: Given, pair: Pair, cased: Path | None = None, subwords: str = "subword_nmt") -> list[Step]:
    """Return the steps of --trees, if it is given.

    cased: if OUT/tok is lower-cased, the folder of its cased text, which is parsed instead; its tokens are equal.
    subwords: how OUT/bpe splits words.
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
            text = file.read_bytes()
            (part / name).write_bytes(gzip.decompress(text) if file.suffix == ".gz" else text)

    def parse_all(part: Path) -> None:
        for split in pair.splits:
            parse_split(given, part, split, lang, cased=cased)

    if given.tree_files:
        tree = Step("tree", f"take the trees of {lang}", take)
    else:
        tree = Step("tree", f"parse {lang}", parse_all, resumes=True)
    return [tree, phrases(given, given.out / "tree", subwords)]


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


def phrases(given: Given, trees: Path, subwords: str = "subword_nmt") -> Step:
    """Return the step that writes the phrases of OUT/bpe from TREES/SPLIT.LANG.tree to OUT/bin."""

    def fill(part: Path) -> None:
        options = ["--lang", given.trees, "--texts", given.out / "bpe", "--trees", trees, "--subwords", subwords]
        run_binarise(given, given.out / "bin", part / "report.txt", options)

    return Step("phrases", f"binarise the phrases of {given.trees}", fill)


def run_binarise(given: Given, folder: Path, report: Path, options: list[object]) -> None:
    """Run fairseq_localattn.phrases.binarize, whose output is kept as well; its errors are lines of its own."""
    words = [python(), "-W", "ignore", "-m", "fairseq_localattn.phrases.binarize", folder, *options]
    command = [str(word) for word in [*words, "--workers", given.workers]]
    with tempfile.TemporaryFile("w+") as errors, report.open("w", encoding="utf-8") as out:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8") as process:
            for line in process.stdout or ():
                print(line, end="", flush=True)
                out.write(line)
        errors.seek(0)
        sys.stderr.write(errors.read())
    if process.returncode:
        sys.exit(process.returncode)
