"""What the preparations of translation must make of their sources: the recipes in a few lines, from the archives."""

from __future__ import annotations

import gzip
import itertools
import re
import tarfile
from pathlib import Path

from sacremoses import MosesPunctNormalizer, MosesTokenizer

from support.prep import SPLITS, lines_of

TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")  # of IWSLT14


def member(archive: Path, name: str) -> list[str]:
    with tarfile.open(archive) as tar:
        content = tar.extractfile(name).read()
    lines = (gzip.decompress(content) if name.endswith(".gz") else content).decode().split("\n")[:-1]
    if name.endswith((".sgm", ".xml")):
        return [re.sub(r"<seg id=\"\d+\">\s*|\s*</seg>\s*", "", line) for line in lines if "<seg id" in line]
    return lines


def iwslt_text(path: Path, lang: str) -> dict[str, list[str]]:
    archive = path / "de-en.tgz"
    train = member(archive, f"de-en/train.tags.de-en.{lang}")
    train = [line for line in train if not re.search("<url>|<talkid>|<keywords>", line)]
    tests = [member(archive, f"de-en/IWSLT14.{name}.de-en.{lang}.xml") for name in TESTS]
    return {
        "train": [re.sub("</?(title|description)>", "", line) for line in train],
        "test": list(itertools.chain(*tests)),
    }


def wmt_text(path: Path, lang: str, other: str) -> dict[str, list[str]]:
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
    normalizer = MosesPunctNormalizer(lang=lang, perl_parity=True, post_remove_control_chars=True)
    tokenizer = MosesTokenizer(lang)
    if normalise:
        lines = [normalizer.normalize(line + "\n") for line in lines]
    return [tokenizer.tokenize(x, aggressive_dash_splits=dashes, return_str=True, escape=True) for x in lines]


def kept(one: list[str], two: list[str], most: int, ratio: float) -> list[int]:
    """The pairs that clean-corpus-n.perl keeps."""
    counts = [(len(a.split()), len(b.split())) for a, b in zip(one, two, strict=True)]
    return [
        place
        for place, (a, b) in enumerate(counts)
        if 1 <= min(a, b) and max(a, b) <= most and max(a, b) <= ratio * min(a, b)
    ]


def encoded(codes: Path, lines: list[str]) -> list[str]:
    from subword_nmt.apply_bpe import BPE

    with codes.open(encoding="utf-8") as stream:
        bpe = BPE(stream)
    return [bpe.process_line(line) for line in lines]


def assert_texts(out: Path, folder: str, lang: str, texts: dict[str, list[str]]) -> None:
    for split in SPLITS:
        assert lines_of(out / folder / f"{split}.{lang}") == texts[split], (folder, split, lang)


def assert_binarised(out: Path, src: str, tgt: str) -> None:
    """fairseq reads the data in both directions, and every subword comes back that is in the dictionary."""
    from fairseq.data import Dictionary
    from fairseq.tasks.translation import load_langpair_dataset

    folder = str(out / "bin")
    for one, two in ((src, tgt), (tgt, src)):
        words = Dictionary.load(f"{folder}/dict.{one}.txt")
        for split in SPLITS:
            data = load_langpair_dataset(
                folder, split, one, words, two, words, combine=False, dataset_impl=None, upsample_primary=1,
                left_pad_source=True, left_pad_target=False, max_source_positions=1024, max_target_positions=1024,
            )  # fmt: skip
            for side, lang in (("source", one), ("target", two)):
                known = [
                    " ".join(word if word in words else "<unk>" for word in line.split())
                    for line in lines_of(out / f"bpe/{split}.{lang}")
                ]
                assert [words.string(data[index][side]) for index in range(len(data))] == known
