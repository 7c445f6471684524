"""Small English-Japanese and Chinese-English corpora, in the raw format and under the file names of the real ones.

    python data-prep/mini_corpus.py aspec FOLDER        (or nist, wmt17_zh_en, tanaka_enja)

A sentence has a time, a subject, a verb, an object and a place; each part has one translation, and each language has an
order of its own. A corpus has the same text each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from corpora.mini.files import archive, as_text, sgm, write

Word = tuple[str, str, str]  # English, Japanese, Chinese


def words(table: str) -> tuple[Word, ...]:
    """Return the words of a table, separated by commas, with / between the languages."""
    entries = (entry.strip().split("/") for entry in table.split(","))
    return tuple((english, japanese, chinese) for english, japanese, chinese in entries)


# Mostly kana, so that a tiny SentencePiece model, which must know every character, is enough.
TIMES = words(
    """today/きょう/今天, yesterday/きのう/昨天, this week/こんしゅう/本周, last year/きょねん/去年,
    this morning/けさ/今早, in spring/はる/春天, in winter/ふゆ/冬天, tomorrow/あした/明天, next month/らいげつ/下月"""
)
YEARS: tuple[Word, ...] = tuple((f"in {year}", f"{year}年", f"{year}年") for year in range(1950, 2020))
QUALITIES = words(
    """small/ちいさな/小, big/おおきな/大, new/あたらしい/新, old/ふるい/旧, red/あかい/红, white/しろい/白,
    cheap/やすい/便宜, beautiful/うつくしい/漂亮, heavy/おもい/重, famous/ゆうめいな/著名, expensive/たかい/昂贵,
    strange/へんな/奇怪, modern/きんだいてきな/现代"""
)
PEOPLE = words(
    """teacher/せんせい/老师, student/がくせい/学生, doctor/いしゃ/医生, child/こども/孩子, farmer/のうか/农民,
    reporter/きしゃ/记者, king/おう/国王, lawyer/べんごし/律师, soldier/へいし/士兵, merchant/しょうにん/商人,
    neighbour/りんじん/邻居, painter/がか/画家, minister/だいじん/部长, researcher/けんきゅうしゃ/研究员,
    company/かいしゃ/公司, government/せいふ/政府"""
)
THINGS = words(
    """car/車/汽车, book/本/书, house/いえ/房子, machine/きかい/机器, map/ちず/地图, ship/ふね/船, letter/てがみ/信,
    picture/え/画, clock/とけい/时钟, knife/ほうちょう/刀, bridge/はし/桥梁, computer/けいさんき/电脑,
    newspaper/しんぶん/报纸, medicine/くすり/药, umbrella/かさ/雨伞, telephone/でんわ/电话, furniture/かぐ/家具,
    island/しま/岛屿"""
)
DEEDS = words(
    """sees/みる/看见, buys/かう/购买, sells/うる/出售, makes/つくる/制造, uses/つかう/使用, finds/みつける/发现,
    needs/もとめる/需要, protects/まもる/保护, destroys/こわす/破坏, describes/えがく/描述, forgets/わすれる/忘记"""
)
PLACES = words(
    """in the park/公園/公园, at school/がっこう/学校, in Tokyo/東京/东京, in Beijing/ぺきん/北京,
    at the hospital/びょういん/医院, in the village/むら/村庄, at the station/えき/车站,
    in the library/としょかん/图书馆, at the airport/くうこう/机场, in Shanghai/しゃんはい/上海,
    in Osaka/おおさか/大阪"""
)


class Sentence(NamedTuple):
    """A sentence in three languages."""

    english: list[str]  # four translations; the first is the usual one
    japanese: list[str]  # words, which are joined without spaces
    chinese: list[str]


def _joined(clauses: Sequence[list[str]], between: list[str]) -> list[str]:
    return [word for number, words in enumerate(clauses) for word in (between if number else []) + words]


def sentences(seed: int) -> Iterator[Sentence]:
    """Yield sentences of one to three clauses without end."""
    chance = random.Random(seed)

    def perhaps(table: Sequence[Word]) -> list[Word]:
        return [chance.choice(table)] if chance.random() < 0.5 else []

    def clause() -> tuple[str, list[str], list[str]]:
        subject, thing, deed = (chance.choice(table) for table in (PEOPLE, THINGS, DEEDS))
        who, what, where = [*perhaps(QUALITIES), subject], [*perhaps(QUALITIES), thing], perhaps(PLACES)
        english, japanese, chinese = (
            [[part[side] for part in parts] for parts in (who, what, where)] for side in (0, 1, 2)
        )
        return (
            " ".join(["the", *english[0], deed[0], "the", *english[1], *english[2]]),
            [*japanese[0], "は", *japanese[2], *(["で"] if where else []), *japanese[1], "を", deed[1]],
            [*chinese[0], *(["在"] if where else []), *chinese[2], deed[2], *chinese[1]],
        )

    while True:
        time = chance.choice(chance.choice((TIMES, YEARS)))
        english, japanese, chinese = zip(*(clause() for _ in range(chance.choice((1, 1, 2, 3)))), strict=True)
        slow, quick = ", and ".join(english), " and ".join(english)
        texts = (f"{time[0]} {slow}.", f"{slow} {time[0]}.", f"{time[0]}, {quick}.", f"{quick}, {time[0]}.")
        yield Sentence(
            [text[0].upper() + text[1:] for text in texts],
            [time[1], "、", *_joined(japanese, ["、", "そして"]), "。"],
            [time[2], *_joined(chinese, ["，", "而且"]), "。"],
        )


def aspec(folder: Path) -> None:
    """Write ASPEC-JE: `score ||| id ||| number ||| Japanese ||| English`; no score in dev, devtest and test."""
    source = sentences(1)
    sizes = {"train/train-1": 900, "train/train-2": 600, "train/train-3": 100, "dev/dev": 100, "test/test": 100}
    for place, (name, count) in enumerate({**sizes, "devtest/devtest": 20}.items()):
        lines = []
        for number, sentence in enumerate(islice(source, count), 1):
            text = f"A-{place:02}A{number:07} ||| 1 ||| {''.join(sentence.japanese)} ||| {sentence.english[0]}"
            lines.append(f"{1 - number / 10000:.6f} ||| {text}" if name.startswith("train") else text)
        write(folder / f"{name}.txt", lines)


def tanaka_enja(folder: Path) -> None:
    """Write {train,dev,test}.{en,ja}.gz: Japanese in words, English in lower-cased words."""
    source = sentences(2)
    for name, count in {"train": 1500, "dev": 100, "test": 100}.items():
        taken = list(islice(source, count))
        english = [sentence.english[0].lower().replace(".", " .").replace(",", " ,") for sentence in taken]
        write(folder / f"{name}.en.gz", english)
        write(folder / f"{name}.ja.gz", [" ".join(sentence.japanese) for sentence in taken])


def _chinese(items: Iterable[Sentence]) -> list[str]:
    return ["".join(item.chinese) for item in items]


def _english(items: Iterable[Sentence], number: int = 0) -> list[str]:
    return [item.english[number] for item in items]


def documents(items: Sequence[Sentence], size: int) -> list[tuple[str, Sequence[Sentence]]]:
    """Return (attributes, sentences) of documents of `size` sentences."""
    return [(f'docid="MINI{start:05}"', items[start : start + size]) for start in range(0, len(items), size)]


def nist(folder: Path) -> None:
    """Write NIST Chinese-English: training text below train/, MT02 to MT06 as .sgm with four references."""
    source = sentences(3)
    for name, suffix, count in (("news", "", 900), ("hansards", ".gz", 500)):
        taken = list(islice(source, count))
        write(folder / f"train/{name}.zh{suffix}", _chinese(taken))
        write(folder / f"train/{name}.en{suffix}", _english(taken))
    grouped = documents(list(islice(source, 200)), 25)
    write(folder / "train/magazine.zh.sgm", sgm("srcset", [(about, _chinese(items)) for about, items in grouped]))
    write(folder / "train/magazine.en.sgm", sgm("refset", [(about, _english(items)) for about, items in grouped]))
    for year, count in {"02": 100, "03": 60, "04": 50, "05": 40, "06": 30}.items():
        grouped = documents(list(islice(source, count)), 10)
        stem = f"mt{year}_chinese_evlset_v0"
        write(folder / f"{stem}-src.sgm", sgm("srcset", [(about, _chinese(items)) for about, items in grouped]))
        english = [
            (f'{about} sysid="E0{number + 1}"', _english(items, number))
            for number in range(4)
            for about, items in grouped
        ]
        write(folder / f"{stem}-ref.sgm", sgm("refset", english))


def wmt17_zh_en(folder: Path) -> None:
    """Write the archives of WMT17's Chinese-English task; some CWMT corpora have several pieces, as the real ones."""
    source = sentences(4)

    def pair(chinese: str, english: str, count: int, joint: str = "") -> dict[str, bytes]:
        taken = list(islice(source, count))
        return {chinese: as_text(joint.join(item.chinese) for item in taken), english: as_text(_english(taken))}

    commentary = "training/news-commentary-v12.zh-en"
    archive(folder / "training-parallel-nc-v12.tgz", pair(f"{commentary}.zh", f"{commentary}.en", 300))
    archive(folder / "UNv1.0.en-zh.tar.gz", pair("en-zh/UNv1.0.en-zh.zh", "en-zh/UNv1.0.en-zh.en", 500))
    for corpus, stems in {
        "casia2015": ["casia2015_ch"], "casict2011": ["casict-A_ch", "casict-B_ch"], "casict2015": ["casict2015_ch"],
        "datum2015": ["datum_ch"], "datum2017": ["Book1_cn", "Book2_cn"], "neu2017": ["NEU_cn"],
    }.items():  # fmt: skip
        files: dict[str, bytes] = {}
        for stem in stems:
            # The Chinese of datum2017 comes in words.
            joint = " " if corpus == "datum2017" else ""
            files |= pair(f"{corpus}/{stem}.txt", f"{corpus}/{stem[:-3]}_en.txt", 90, joint)
        archive(folder / f"{corpus}.zip", files)
    for part, name, count in (("dev", "newsdev2017", 100), ("test", "newstest2017", 100)):
        grouped = documents(list(islice(source, count)), 10)
        chinese, english = ([(about, side(items)) for about, items in grouped] for side in (_chinese, _english))
        stem = f"{part}/{name}-zhen"
        sets = {f"{stem}-src.zh.sgm": sgm("srcset", chinese), f"{stem}-ref.en.sgm": sgm("refset", english)}
        archive(folder / f"{part}.tgz", {file: as_text(lines) for file, lines in sets.items()})


CORPORA: dict[str, Callable[[Path], None]] = {
    "aspec": aspec,
    "nist": nist,
    "tanaka_enja": tanaka_enja,
    "wmt17_zh_en": wmt17_zh_en,
}
