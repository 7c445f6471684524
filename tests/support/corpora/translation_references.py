"""References for the preparations of translation: their recipes in a few lines, applied to the archives."""

from __future__ import annotations

import gzip
import itertools
import re
import tarfile
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer

from support.corpora.prep import SPLITS, assert_translation_data, lines_of

TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")  # of IWSLT14


def member(archive: Path, name: str) -> list[str]:
    """Return the lines of text of a file in an archive."""
    with tarfile.open(archive) as tar:
        packed = tar.extractfile(name)
        assert packed is not None
        content = packed.read()
    lines = (gzip.decompress(content) if name.endswith(".gz") else content).decode().split("\n")[:-1]
    if name.endswith((".sgm", ".xml")):
        return [re.sub(r"<seg id=\"\d+\">\s*|\s*</seg>\s*", "", line) for line in lines if "<seg id" in line]
    return lines


def iwslt_text(path: Path, lang: str) -> dict[str, list[str]]:
    """Return the text of IWSLT14 by split, before validation text is taken out."""
    archive = path / "de-en.tgz"
    train = member(archive, f"de-en/train.tags.de-en.{lang}")
    train = [line for line in train if not re.search("<url>|<talkid>|<keywords>", line)]
    tests = [member(archive, f"de-en/IWSLT14.{name}.de-en.{lang}.xml") for name in TESTS]
    return {
        "train": [re.sub("</?(title|description)>", "", line) for line in train],
        "test": list(itertools.chain(*tests)),
    }


def wmt_text(path: Path, lang: str, other: str) -> dict[str, list[str]]:
    """Return the text of WMT14 by split; other: de or fr."""
    prefixes = {"europarl-v7": f"training/europarl-v7.{other}-en", "commoncrawl": f"commoncrawl.{other}-en"}
    if other == "fr":
        prefixes["un"] = "un/undoc.2000.fr-en"
    prefixes["nc-v9"] = f"training/news-commentary-v9.{other}-en"
    train = [member(path / f"training-parallel-{name}.tgz", f"{prefix}.{lang}") for name, prefix in prefixes.items()]
    if other == "fr":
        train.append(member(path / "training-giga-fren.tar", f"giga-fren.release2.fixed.{lang}.gz"))
    kind = "src" if lang == "en" else "ref"
    return {
        "train": list(itertools.chain(*train)),
        "valid": member(path / "dev.tgz", f"dev/newstest2013.{lang}"),
        "test": member(path / "test-full.tgz", f"test-full/newstest2014-{other}en-{kind}.{lang}.sgm"),
    }


def moses(lines: list[str], lang: str, *, normalise: bool, dashes: bool) -> list[str]:
    """Return Moses tokens."""
    normalizer = MosesPunctNormalizer(lang=lang, perl_parity=True, post_remove_control_chars=True)
    tokenizer = MosesTokenizer(lang)
    if normalise:
        lines = [normalizer.normalize(line + "\n") for line in lines]
    return [tokenizer.tokenize(x, aggressive_dash_splits=dashes, return_str=True, escape=True) for x in lines]


def wmt_tokens(text: dict[str, list[str]], lang: str) -> dict[str, list[str]]:
    """Return the tokens of WMT14's text by split: the test set is not normalised, but for its apostrophes."""
    tokens = {split: moses(text[split], lang, normalise=True, dashes=True) for split in ("train", "valid")}
    plain = [line.replace("’", "'") for line in text["test"]]
    return tokens | {"test": moses(plain, lang, normalise=False, dashes=True)}


def kept(one: list[str], two: list[str], most: int, ratio: float) -> list[int]:
    """Return the places of the pairs that clean-corpus-n.perl keeps."""
    counts = [(len(a.split()), len(b.split())) for a, b in zip(one, two, strict=True)]
    return [
        place
        for place, (a, b) in enumerate(counts)
        if 1 <= min(a, b) and max(a, b) <= most and max(a, b) <= ratio * min(a, b)
    ]


def encoded(codes: Path, lines: list[str]) -> list[str]:
    """Return the lines in subwords."""
    from subword_nmt.apply_bpe import BPE

    with codes.open(encoding="utf-8") as stream:
        bpe = BPE(stream)
    return [bpe.process_line(line) for line in lines]


def assert_texts(out: Path, folder: str, lang: str, texts: dict[str, list[str]]) -> None:
    """Assert that a step has these lines of a language."""
    for split in SPLITS:
        assert lines_of(out / folder / f"{split}.{lang}") == texts[split], (folder, split, lang)


def assert_binarised(out: Path, src: str, tgt: str) -> None:
    """Assert that fairseq reads OUT/bpe."""
    texts = {split: {lang: lines_of(out / f"bpe/{split}.{lang}") for lang in (src, tgt)} for split in SPLITS}
    assert_translation_data(out / "bin", src, tgt, texts)
