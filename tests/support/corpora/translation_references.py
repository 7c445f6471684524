"""References for the preparations of translation: their recipes in a few lines, applied to the archives."""

from __future__ import annotations

import gzip
import re
import tarfile
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer

from support.corpora.prep import SPLITS, lines_of

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
    tests = [member(archive, f"de-en/IWSLT14.{name}.de-en.{lang}.xml") for name in TESTS]
    kept = [line for line in train if not re.search("<url>|<talkid>|<keywords>", line)]
    return {"train": [re.sub("</?(title|description)>", "", line) for line in kept], "test": sum(tests, [])}


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
        "train": sum(train, []),
        "valid": member(path / "dev.tgz", f"dev/newstest2013.{lang}"),
        "test": member(path / "test-full.tgz", f"test-full/newstest2014-{other}en-{kind}.{lang}.sgm"),
    }


def tokens_of(texts: dict[str, dict[str, list[str]]], wmt: bool = True) -> dict[str, dict[str, list[str]]]:
    """Return Moses tokens by language and split as fairseq's recipes make them: in test sets ’ becomes ' first.

    Those of WMT are normalised, but for test sets, and have dashes split; those of IWSLT are lower-cased.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for lang, splits in texts.items():
        normalizer = MosesPunctNormalizer(lang=lang, perl_parity=True, post_remove_control_chars=True)
        tokenizer, found[lang] = MosesTokenizer(lang), {}
        for split, lines in splits.items():
            if split == "test":
                lines = [line.replace("’", "'") for line in lines]
            elif wmt:
                lines = [normalizer.normalize(line + "\n") for line in lines]
            tokens = [tokenizer.tokenize(x, aggressive_dash_splits=wmt, return_str=True, escape=True) for x in lines]
            found[lang][split] = tokens if wmt else [line.lower() for line in tokens]
    return found


def kept(one: list[str], two: list[str], most: int, ratio: float) -> list[int]:
    """Return the places of the pairs that clean-corpus-n.perl keeps."""
    counts = [sorted((len(a.split()), len(b.split()))) for a, b in zip(one, two, strict=True)]
    return [place for place, (a, b) in enumerate(counts) if 1 <= a and b <= most and b <= ratio * a]


def assert_texts(out: Path, folder: str, lang: str, texts: dict[str, list[str]]) -> None:
    """Assert that a step has these lines of a language."""
    for split in SPLITS:
        assert lines_of(out / folder / f"{split}.{lang}") == texts[split], (folder, split, lang)
