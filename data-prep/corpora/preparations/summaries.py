"""Preparations of texts with summaries. Their OUT:

OUT/raw    {train,valid,test}.article and .summary, as published  OUT/vocab  vocab.txt, dict.txt: WordPiece and fairseq
OUT/tok    {valid,test}.summary: words in lower case, for ROUGE     OUT/bpe    all texts in WordPieces
OUT/bin    for fairseq, article to summary, with one dictionary of the size of the vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from corpora.arguments import at_least
from corpora.errors import UsageError
from corpora.preparations import texts
from corpora.preparations.fetch import obtain, obtain_members
from corpora.preparations.options import Given, Options
from corpora.preparations.steps import Preparation, Step
from corpora.preparations.texts import Pair
from corpora.sources import cnndm as cnndm_source
from corpora.sources import gigaword as gigaword_source
from corpora.sources import summaries
from corpora.text.lines import find_file, read_lines, write_lines
from corpora.text.linewise import change_file
from corpora.tokens import wordpiece

SIDES = Pair("article", "summary")
# The vocabulary of BERT's uncased models, which MASS and MAN use: 30,522 entries. See checksums.txt.
BERT = "https://huggingface.co/bert-base-uncased/resolve/86b5e0934494bd15c9632b12f734a8a67f723594/vocab.txt"
MOST_PIECES = 511  # fairseq-generate refuses a test set with a target beyond the model's 512 positions


def _add_vocabulary(options: Options) -> None:
    another = "another WordPiece vocabulary than that of BERT's uncased models (with --local: DIR/vocab.txt)"
    options.add("vocab", "FILE", another, check=Path)
    options.number("train-vocab", None, "a vocabulary of N entries, learned on the training text")


def _check_vocabulary(given: Given) -> str:
    """Return the vocabulary, for the options of OUT; raises UsageError."""
    if given.vocab and given.train_vocab:
        raise UsageError("--vocab FILE or --train-vocab N, not both")
    if given.vocab and not given.vocab.is_file() and not (given.out / "vocab").is_dir():
        raise UsageError(f"no file {given.vocab}: give a vocabulary, one entry a line, with --vocab FILE")
    if given.train_vocab:
        return f"learned-{given.train_vocab}"
    if given.vocab:
        return str(given.vocab.resolve())
    folder = None if (given.out / "vocab").is_dir() else given.local
    if folder and folder.is_dir() and not (folder / "vocab.txt").exists():
        raise UsageError(f"{folder} has no vocab.txt: get it from {BERT}, or give --vocab FILE or --train-vocab N")
    return "bert"


def _finish(given: Given, most_words: int = 0) -> list[Step]:
    """Return the steps after OUT/raw; most_words: first words of a summary outside of the test set (0: all)."""
    out, vocabulary = given.out, given.out / "vocab/vocab.txt"

    def vocab(part: Path) -> None:
        if given.train_vocab:
            entries = wordpiece.learn(given.train_vocab, SIDES.files(out / "raw/train"))
        else:
            entries = wordpiece.read_vocabulary(given.vocab or obtain(given, BERT).path)
        wordpiece.write_vocabulary(entries, part)

    def words(part: Path) -> None:
        for name in ("valid.summary", "test.summary"):
            split = partial(wordpiece.splitter, vocabulary)
            change_file(out / "raw" / name, part / name, split, given.workers, allow_empty=True)

    def pieces(part: Path) -> None:
        for name, split, side in SIDES.names():
            most = most_words if side == "summary" and split != "test" else 0
            encoder, text = partial(wordpiece.encoder, vocabulary, most), out / "raw" / name
            change_file(text, part / name, encoder, given.workers, allow_empty=True)
            wordpiece.check_known(text, part / name)
        test = part / "test.summary"  # ROUGE is taken against OUT/tok
        write_lines(test, (" ".join(line.split(" ")[:MOST_PIECES]) for _, line in read_lines(test)))

    return [
        Step("vocab", "vocabulary", vocab),
        Step("tok", "words of the references", words),
        Step("bpe", "cut into WordPieces", pieces, resumes=True),
        texts.binarise(given, SIDES, ("--joined-dictionary", "--srcdict", out / "vocab/dict.txt")),
    ]


REVISION = "11343c3752184397d56efc19a8a7cceb68089318"
STORIES = f"https://huggingface.co/datasets/cnn_dailymail/resolve/{REVISION}/data"
LISTS = "https://raw.githubusercontent.com/abisee/cnn-dailymail/master/url_lists"


def cnndm(options: Options, words: Sequence[object]) -> Preparation:
    """Not anonymised (See et al. 2017). Texts are not cut: train with --truncate-source --max-source-positions 512.
    OUT/raw/test.article.sentences: what LEAD-3 is taken from. OUT/tok/test.summary: the references for ROUGE."""
    stories = "folder with {cnn,dailymail}_stories.tgz or {cnn,dailymail}/stories, and all_{train,val,test}.txt"
    options.corpus("CNNDM", f"{stories}; or with {{train,val,test}}.{{source,target}}, one text a line, plain or .gz")
    _add_vocabulary(options)
    cut = "cut summaries for training and validation to N words, as MASS does; 0: do not"
    options.add("summary-words", "N", cut, 120, at_least(0))
    given = options.read(words)
    vocabulary = _check_vocabulary(given)
    given.need_local("the stories and the lists of addresses")

    def read(part: Path) -> None:
        lists, folders = given.local, []
        if lists is None or not find_file(lists, "train.source").exists():
            names = [(f"{STORIES}/{name}_stories.tgz", f"{name}/stories") for name in ("cnn", "dailymail")]
            folders = [obtain_members(given, url, member).path for url, member in names]
            files = [obtain(given, f"{LISTS}/all_{split}.txt").path for split in ("train", "val", "test")]
            lists = files[-1].parent
        examples = cnndm_source.read(lists, folders, judge=not given.no_checksums)
        summaries.prepare(part, examples, cnndm_source.OFFICIAL, cnndm_source.PAPER)

    steps = [
        Step("raw", "read and check the stories", read, reads=True),  # 312,085 files are unpacked
        *_finish(given, given.summary_words),
    ]
    return Preparation(given, f"cnndm vocab={vocabulary} summary-words={given.summary_words} {given.checked()}", steps)


GIGAWORD_REVISION = "e45e01b2da13842bb3df1b12dc046910147b3d82"
GIGAWORD = f"https://huggingface.co/datasets/Harvard/gigaword/resolve/{GIGAWORD_REVISION}/data/ggw_data.zip"


def gigaword(options: Options, words: Sequence[object]) -> Preparation:
    """Rush et al. (2015), as it comes: digits are #, rare words <unk>, in the test set UNK. OUT/tok/test.summary: the
    references for ROUGE. DIR has sent-summary's train/{train.article,train.title,valid.article.filter,
    valid.title.filter}.txt and Giga/{input,task1_ref0}.txt, UniLM's org_data, or ggw_data.zip; plain or .gz."""
    options.corpus("GIGAWORD", "folder sumdata of sent-summary, or org_data of UniLM, or the folder it is in")
    _add_vocabulary(options)
    given = options.read(words)
    vocabulary = _check_vocabulary(given)
    given.need_local("sumdata or org_data")

    def read(part: Path) -> None:
        folder, verified = given.local, False
        if folder is None or (folder / "ggw_data.zip").exists():
            folder, verified = obtain_members(given, GIGAWORD, "org_data")
        examples = gigaword_source.read(folder, judge=not (given.no_checksums or verified))
        summaries.prepare(part, examples, gigaword_source.OFFICIAL, gigaword_source.OFFICIAL)

    steps = [Step("raw", "read and check the texts", read, reads=True), *_finish(given)]
    return Preparation(given, f"gigaword vocab={vocabulary} {given.checked()}", steps)
