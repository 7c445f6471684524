"""Preparations with Japanese or Chinese, which have to be segmented into words.

    OUT/raw, OUT/tok  raw text and words of the training pairs that are kept, and of all other splits
    OUT/bpe           BPE with the codes of both languages' text, or a SentencePiece model of each (then no OUT/tok)

{train,valid,test,test1…}.LANG, and .LANG.ref0, .ref1, … where there are several references.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from corpora.arguments import at_least
from corpora.errors import UsageError
from corpora.preparations import texts, trees
from corpora.preparations.fetch import Found, obtain_members
from corpora.preparations.options import Given, Options
from corpora.preparations.steps import Preparation, Step
from corpora.preparations.texts import Pair, Sources
from corpora.sources import aspec as aspec_source
from corpora.sources import nist as nist_source
from corpora.text import bitext
from corpora.text.bitext import Limits
from corpora.text.lines import SPLITS, find_file
from corpora.tokens import segment


def _in_words(
    given: Given, pair: Pair, read: Callable[[Path], None], *, most: int | None = None, published: Sequence[int] = (),
    segmented: bool = False,
) -> list[Step]:  # fmt: skip
    """Return all steps up to OUT/bin.

    The training pairs are those with 1 to `most` words a side (None: any number); published: their number in a paper.
    """
    limits = Limits(1, most)
    take = partial(texts.take_pairs, pair, measured=given.out / "tokens", limits=limits, official=published)
    words = partial(segment.words_of_folder, given.out / "text", segmented=segmented, workers=given.workers)
    return [
        *texts.cleaned(given, read, words, take),
        texts.bpe(given, pair, "BPE"),
        texts.binarise(given, pair, ("--joined-dictionary",) if given.joined_dictionary else ()),
    ]


def _add_words(options: Options) -> None:
    options.flag("segmented", "the Chinese is in words already, separated by spaces")
    options.number("bpe", 32000, "merges of the BPE of both languages")
    options.flag("joined-dictionary", "one dictionary for both languages; else there are two")


# ASPEC

EN_JA = Pair("en", "ja")
# https://jipsti.jst.go.jp/aspec/ counts 1,000,000, 1,000,000 and 1,008,500 pairs, dev 1,790 and test 1,812.
SECTIONS = (0, 1_000_000, 2_000_000, 3_008_500)


def aspec(options: Options, words: Sequence[object]) -> Preparation:
    """WAT17 English-Japanese, which takes an application to https://jipsti.jst.go.jp/aspec/, or other text of these
    languages. valid = dev (1,790 pairs), test 1,812. With --pieces there is no OUT/tok; --bpe needs the extra ja."""
    options.local("ASPEC", "ASPEC-JE: train/train-{1,2,3}.txt, dev/dev.txt, test/test.txt, plain or .gz")
    options.number("sections", 2, "training files, the best aligned first: 1, 2 (2,000,000 pairs) or 3")
    options.add("pairs", "DIR", "not ASPEC: {train,dev or valid,test}.{en,ja}, plain or .gz", check=Path)
    options.min_correlation()
    options.flag("join-ja", "with --pairs: the Japanese is in words there; join them to raw text")
    options.number("pieces", None, "SentencePiece: N pieces for each language, from raw text (16000, Cui et al. 2019)")
    options.number("bpe", None, "instead: words by Moses and MeCab, then N merges (Yang et al. 2019: 32000)")
    options.flag("joined-dictionary", "with --bpe: one dictionary for both languages; else there are two")
    given = options.read(words)
    if given.pieces and given.bpe:
        raise UsageError("--pieces or --bpe, please, not both")
    if given.joined_dictionary and not given.bpe:
        raise UsageError("--joined-dictionary goes with --bpe")
    if given.join_ja and not given.pairs:
        raise UsageError("--join-ja goes with --pairs: the text of ASPEC is raw")
    if given.sections > 3:
        raise UsageError(f"--sections is 1, 2 or 3, got '{given.sections}'")
    pieces, published = given.pieces or 16000, []
    if given.pairs:
        read = partial(_read_pairs, given)
        origin = f"pairs={given.pairs.resolve()} join-ja={int(given.join_ja)}"
    elif given.local:
        read, published = partial(_read_aspec, given), [SECTIONS[given.sections]]
        origin = f"local={given.local.resolve()} sections={given.sections}"
    else:
        raise UsageError("no ASPEC folder: give the one with train/, dev/ and test/ with --local DIR, or see --pairs")
    given.need_folder(given.pairs or given.local, "give the corpus with --local DIR or --pairs DIR")
    note = f"aspec {origin} pieces={'' if given.bpe else pieces} bpe={given.bpe or ''}"
    note += f" joined={int(given.joined_dictionary)}"
    if given.bpe:
        return Preparation(given, note, _in_words(given, EN_JA, read, published=published))
    make = partial(texts.make_subwords, given, EN_JA, given.out / "raw", kind="pieces", size=pieces, joint=False)
    steps = [
        Step("raw", "read and check the text", read),
        Step("bpe", f"SentencePiece, {pieces} pieces each", make, resumes=True),
        texts.binarise(given, EN_JA, ()),
    ]
    return Preparation(given, note, steps)


def _read_aspec(given: Given, part: Path) -> None:
    folder = given.local
    assert folder is not None
    for split, name, official in (("valid", "dev/dev.txt", 1790), ("test", "test/test.txt", 1812)):
        aspec_source.prepare([find_file(folder, name)], Pair("ja", "en").files(part / split), official)
    files = [find_file(folder, f"train/train-{number}.txt") for number in range(1, given.sections + 1)]
    aspec_source.prepare(files, Pair("ja", "en").files(part / "train"), SECTIONS[given.sections], scored=True)


def _read_pairs(given: Given, part: Path) -> None:
    for split in SPLITS:
        name = "dev" if split == "valid" and not find_file(given.pairs, "valid.ja").exists() else split
        files = find_file(given.pairs, f"{name}.en"), find_file(given.pairs, f"{name}.ja")
        english, japanese = EN_JA.files(part / split)
        joined = japanese.with_name(f"{japanese.name}.words") if given.join_ja else japanese
        rules = bitext.Rules(min_correlation=float(given.min_correlation))
        bitext.join([files], (english, joined), rules)
        if given.join_ja:
            segment.join_file(joined, japanese, given.workers)
            joined.unlink()


# NIST

ZH_EN = Pair("zh", "en")
NIST = Pair("zh", "en", (*SPLITS, "test1", "test2", "test3"))


def nist(options: Options, words: Sequence[object]) -> Preparation:
    """Test sets have four references each: mt02.zh and mt02.en.ref0 to .ref3, or NIST's .sgm or .xml below DIR
    (mt02_chinese_evlset_v0.sgm, …-ref.sgm: LDC2010T10, T11, T12, T14, T17). Training text: train.zh and train.en, or
    train/*.zh and train/*.en (.gz, .sgm, .xml too); the 1.25M pairs of the literature are LDC2002E18, LDC2003E07,
    LDC2003E14, the Hansards of LDC2004T07, LDC2004T08 and LDC2005T06. Splits: valid MT02, test MT03, test1 to test3
    MT04 to MT06; references are OUT/raw/test.en.ref0 to .ref3, and in OUT/tok; OUT/raw/test.en is the first one. Case
    is kept, as in Hao et al. 2019. Words are found by jieba (the extra zh): trees are over words."""
    options.local("NIST", "the licensed text: see below; there is no download")
    options.add("encoding", "NAME", "of its files; older LDC corpora: gb18030, big5", "utf-8")
    options.min_correlation()
    _add_words(options)
    options.trees("zh")
    given = options.read(words)
    trees.check(given, "zh")
    if not given.local:
        raise UsageError("no NIST folder: give the licensed text with --local DIR (see --help)")
    given.need_local("the licensed text (see --help)")
    read = partial(nist_source.prepare, given.local, encoding=given.encoding, minimum=float(given.min_correlation))
    steps = [*_in_words(given, NIST, read, segmented=given.segmented), *trees.steps(given, NIST)]
    joined = f"joined={int(given.joined_dictionary)}"
    note = f"nist {given.settings('encoding', 'segmented', 'bpe')} {joined} local={given.origin()}"
    return Preparation(given, note, steps, trees=trees.origin(given))


# WMT17

WMT17 = "http://data.statmt.org/wmt17/translation-task"
UN = "https://storage.googleapis.com/tfds-data/downloads/uncorpus/UNv1.0.en-zh.tar.gz"
# The account is the public one that WMT17's page gives for these corpora.
CWMT = "ftp://cwmt-wmt:cwmt-wmt@nlp.nju.edu.cn/parallel"
CWMT_CORPORA = ("casia2015", "casict2011", "casict2015", "datum2015", "datum2017", "neu2017")
# The number of Yang et al. (2019), who do not describe how they cleaned the text; 50 words a side are our choice.
WMT17_PAIRS = 20_620_000


def wmt17_zh_en(options: Options, words: Sequence[object]) -> Preparation:
    """News Commentary v12, the UN Parallel Corpus v1.0, and of CWMT six corpora: about 25 million pairs. valid =
    newsdev2017 (2,002), test = newstest2017 (2,001). 40 GB of disk. Words are found by jieba (the extra zh)."""
    options.corpus("WMT17_ZH_EN", "the archives, or what they unpack to")
    options.add("max-words", "N", "training pairs with a longer side are left out; 0: none are", 50, at_least(0))
    _add_words(options)
    options.min_correlation()
    given = options.read(words)
    given.need_local("the archives")
    most = given.max_words or None
    steps = _in_words(
        given, ZH_EN, partial(_read_wmt17, given), most=most, published=[WMT17_PAIRS], segmented=given.segmented
    )
    joined = f"joined={int(given.joined_dictionary)} {given.settings('segmented')}"
    note = f"wmt17-zh-en {given.settings('max-words', 'bpe')} {joined} {given.checked()}"
    return Preparation(given, note, steps)


def _read_wmt17(given: Given, part: Path) -> None:
    for split, archive, name, official in (
        ("valid", "dev", "newsdev2017", 2002),
        ("test", "test", "newstest2017", 2001),
    ):
        one, stem = Sources(given, ZH_EN), f"{archive}/{name}-zhen"
        one.add_members(f"{WMT17}/{archive}.tgz", f"{stem}-src.zh.sgm", f"{stem}-ref.en.sgm")
        rules = bitext.Rules(min_correlation=float(given.min_correlation))
        bitext.join(one.files, ZH_EN.files(part / split), rules, official)
    train = Sources(given, ZH_EN)
    train.add_pair(f"{WMT17}/training-parallel-nc-v12.tgz", "training/news-commentary-v12.zh-en")
    train.add_pair(UN, "en-zh/UNv1.0.en-zh")
    for name in CWMT_CORPORA:
        _add_cwmt(train, name)
    train.join(part / "train")


def _add_cwmt(train: Sources, name: str) -> None:
    """Add the pieces of a CWMT corpus, *_ch.txt or *_cn.txt with *_en.txt; raises UsageError."""
    local = train.given.local
    if local and (local / name).is_dir():
        found = Found(local, False)
    else:
        found = obtain_members(train.given, f"{CWMT}/{name}.zip", f"{name}/*_c[hn].txt", f"{name}/*_en.txt")
    train.verified &= found.verified
    folder = found.path / name
    pieces = {path.name.removesuffix(".gz") for end in ("", ".gz") for path in folder.glob(f"*_c[hn].txt{end}")}
    for piece in sorted(pieces):
        english = find_file(folder, f"{piece.removesuffix('.txt')[:-3]}_en.txt")
        if not english.exists():
            raise UsageError(f"{folder / piece}: there is no {english.name} beside it")
        train.files.append((find_file(folder, piece), english))
    if not pieces:
        raise UsageError(f"{folder} has no *_ch.txt or *_cn.txt: give the folder or {name}.zip with --local DIR")
