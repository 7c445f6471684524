"""Small IWSLT14 De-En, WMT14 En-De and WMT14 En-Fr, in the archives and formats of their sources.

    python data-prep/mini_corpus.py iwslt14 FOLDER        (or wmt14_en_de, wmt14_en_fr)

German and English are from the toy grammar; French and English follow one pattern, in which adjective and noun change
places. Cleaning removes some of the training pairs.
"""

from __future__ import annotations

import gzip
import itertools
import random
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sacremoses import MosesTokenizer

from corpora.mini.files import archive, as_text, sgm, write
from corpora.toy import grammar as toy_grammar

Pair = tuple[str, str]

_NOUNS = (
    ("dog", "le", "chien"), ("cat", "le", "chat"), ("car", "la", "voiture"), ("house", "la", "maison"),
    ("boy", "le", "garçon"), ("girl", "la", "fille"), ("book", "le", "livre"), ("flower", "la", "fleur"),
    ("doctor", "le", "médecin"), ("table", "la", "table"), ("garden", "le", "jardin"), ("street", "la", "rue"),
)  # fmt: skip
_ADJECTIVES = (
    ("red", "rouge"), ("young", "jeune"), ("strange", "étrange"), ("calm", "calme"), ("famous", "célèbre"),
    ("sad", "triste"), ("rich", "riche"), ("honest", "honnête"),
)  # fmt: skip
_VERBS = (("sees", "voit"), ("finds", "trouve"), ("looks for", "cherche"), ("likes", "aime"), ("loses", "perd"))
_ENDS = (("today", "aujourd’hui"), ("often", "souvent"), ("since yesterday", "depuis hier"), ("on Monday", "lundi"))


def german(seed: int) -> Iterator[Pair]:
    """Yield German and English sentences without end."""
    yield from ((one, two) for one, two, _ in toy_grammar.pairs(seed))


def french(seed: int) -> Iterator[Pair]:
    """Yield French and English sentences without end; none comes twice."""
    draw = random.Random(seed)
    seen = set()
    while True:
        french, english = zip(*(_phrases(draw) for _ in range(2)), strict=True)
        (verb, verbe), (end, fin) = draw.choice(_VERBS), draw.choice(_ENDS)
        pair = f"{french[0]} {verbe} {french[1]} {fin}.", f"{english[0]} {verb} {english[1]} {end}."
        if pair[0] not in seen:
            seen.add(pair[0])
            yield pair[0][0].upper() + pair[0][1:], pair[1][0].upper() + pair[1][1:]


def _phrases(draw: random.Random) -> Pair:
    """Return one to four things, in French and in English."""
    things = []
    for _ in range(draw.choice((1, 1, 2, 4))):
        (english, article, noun), (adjective, other) = draw.choice(_NOUNS), draw.choice(_ADJECTIVES)
        things.append((f"{article} {noun} {other}", f"the {adjective} {english}"))
    return " et ".join(one for one, _ in things), " and ".join(two for _, two in things)


def tags(lines: Sequence[str], lang: str) -> bytes:
    """Return training text of IWSLT, with tags before every talk of 20 lines."""
    text = []
    for number, line in enumerate(lines):
        if number % 20 == 0:
            text += [f"<url>http://talks.example/{number}</url>", f"<keywords>talks, {lang}</keywords>"]
            text += [f"<talkid>{number}</talkid>", f"<title>{line}</title>", f"<description>{line}</description>"]
        text.append(line)
    return as_text(text)


def take(pairs: Iterator[Pair], count: int) -> tuple[list[str], list[str]]:
    """Return the next pairs, by side."""
    chosen = list(itertools.islice(pairs, count))
    return [one for one, _ in chosen], [two for _, two in chosen]


def iwslt14(folder: Path) -> None:
    """Write de-en.tgz, with 1,500 training pairs and title and description of each talk."""
    pairs = german(14)
    members = {}
    for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
        for lang, lines in zip(("de", "en"), take(pairs, 20), strict=True):
            members[f"de-en/IWSLT14.{name}.de-en.{lang}.xml"] = as_text(sgm("refset", [('docid="1"', lines)]))
    for lang, lines in zip(("de", "en"), odd(take(pairs, 1500)), strict=True):
        members[f"de-en/train.tags.de-en.{lang}"] = tags(lines, lang)
    archive(folder / "de-en.tgz", members)


def is_odd(number: int) -> bool:
    """Return whether odd() changes the training pair of this number, from 0."""
    return number % 40 in (7, 24)


def odd(sides: tuple[list[str], list[str]]) -> tuple[list[str], list[str]]:
    """Change some pairs into ones that every recipe removes: with an empty side, or one of more than 100 words."""
    for number in filter(is_odd, range(len(sides[0]))):
        text = sides[number % 2][number]
        sides[number % 2][number] = "" if number % 40 == 7 else " ".join(itertools.repeat(text, 101))
    return sides


def _wmt(folder: Path, lang: str, pairs: Iterator[Pair], corpora: dict[str, tuple[str, int]]) -> None:
    """Write the archives of WMT; corpora: archive → prefix of its two files, and number of pairs."""
    tests = {}
    valid = dict(zip((lang, "en"), take(pairs, 60), strict=True))
    for side, lines in zip((lang, "en"), take(pairs, 60), strict=True):
        kind, name = ("srcset", "src") if side == "en" else ("refset", "ref")
        tests[f"test-full/newstest2014-{lang}en-{name}.{side}.sgm"] = as_text(sgm(kind, [('docid="1"', lines)]))
    archive(folder / "test-full.tgz", tests)
    archive(folder / "dev.tgz", {f"dev/newstest2013.{side}": as_text(lines) for side, lines in valid.items()})
    for name, (prefix, count) in corpora.items():
        members = {
            f"{prefix}.{side}": as_text(lines)
            for side, lines in zip((lang, "en"), odd(take(pairs, count)), strict=True)
        }
        if name.endswith(".tar"):
            members = {f"{member}.gz": gzip.compress(content, mtime=0) for member, content in members.items()}
        archive(folder / name, members)


def wmt14_en_de(folder: Path) -> None:
    """Write the archives of prepare_wmt14_en_de.sh with 1,500 training pairs, and in trees/ the trees of the English.

    News Commentary v9, v11 and v12 have equal text, so that the trees fit every --data but google.
    """
    google(folder)
    corpora = {
        "training-parallel-europarl-v7.tgz": ("training/europarl-v7.de-en", 700),
        "training-parallel-commoncrawl.tgz": ("commoncrawl.de-en", 500),
        "training-parallel-nc-v9.tgz": ("training/news-commentary-v9.de-en", 300),
    }
    _wmt(folder, "de", german(15), corpora)
    with tarfile.open(folder / "training-parallel-nc-v9.tgz") as tar:
        members = [(member.name[-2:], tar.extractfile(member)) for member in tar]
        news = {lang: content.read() for lang, content in members if content}
    for version, place in (("v11", "training-parallel-nc-v11"), ("v12", "training")):
        names = {lang: f"{place}/news-commentary-{version}.de-en.{lang}" for lang in news}
        archive(folder / f"training-parallel-nc-{version}.tgz", {names[lang]: news[lang] for lang in news})
    trees = (tree for _, _, tree in toy_grammar.pairs(15))
    for split in ("valid", "test"):
        write(folder / f"trees/{split}.en.tree", itertools.islice(trees, 60))
    kept = [tree for _, count in corpora.values() for number, tree in enumerate(itertools.islice(trees, count))
            if not is_odd(number)]  # fmt: skip
    write(folder / "trees/train.en.tree", kept)


def google(folder: Path) -> None:
    """Write wmt16_en_de.tar.gz: 1,500 training pairs in subwords, and the test sets as text, tokens and subwords."""
    pairs, members = german(20), {}
    for name, count in (("train.tok.clean", 1500), ("newstest2013", 60), ("newstest2014", 60)):
        for lang, lines in zip(("de", "en"), take(pairs, count), strict=True):
            tokenizer = MosesTokenizer(lang)
            tokens = [tokenizer.tokenize(line, return_str=True) for line in lines]
            pieces = [re.sub(r"(?<!&)\b(\w{4})(?=\w)", r"\1@@ ", line) for line in tokens]
            stem = name if "tok" in name else f"{name}.tok"
            members[f"{stem}.bpe.32000.{lang}"] = as_text(pieces)
            if stem != name:
                members[f"{name}.{lang}"], members[f"{stem}.{lang}"] = as_text(lines), as_text(tokens)
    archive(folder / "wmt16_en_de.tar.gz", members)


def wmt14_en_fr(folder: Path) -> None:
    """Write all archives that prepare_wmt14_en_fr.sh reads, with 1,500 training pairs."""
    corpora = {
        "training-parallel-europarl-v7.tgz": ("training/europarl-v7.fr-en", 500),
        "training-parallel-commoncrawl.tgz": ("commoncrawl.fr-en", 300),
        "training-parallel-un.tgz": ("un/undoc.2000.fr-en", 300),
        "training-parallel-nc-v9.tgz": ("training/news-commentary-v9.fr-en", 200),
        "training-giga-fren.tar": ("giga-fren.release2.fixed", 200),
    }
    _wmt(folder, "fr", french(16), corpora)


CORPORA: dict[str, Callable[[Path], None]] = {
    "iwslt14": iwslt14,
    "wmt14_en_de": wmt14_en_de,
    "wmt14_en_fr": wmt14_en_fr,
}
