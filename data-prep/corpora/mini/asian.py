"""Small English-Japanese and Chinese-English corpora, in the raw format and under the file names of the real ones.

    python data-prep/mini_corpus.py aspec FOLDER        (or nist, wmt17_zh_en, tanaka_enja)

A sentence has a time, a subject, a verb, an object and a place; each part has one translation, and each language has an
order of its own. A corpus has the same text each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from corpora.mini.files import archive, as_text, write

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


@dataclass(frozen=True)
class Clause:
    """A clause; both qualities and the place are optional."""

    subject_quality: Word | None
    subject: Word
    quality: Word | None
    thing: Word
    deed: Word
    place: Word | None

    def words(self, language: int) -> list[str]:
        """Return the words in a language: 0 English, 1 Japanese, 2 Chinese; English parts may have several words."""
        who = [word[language] for word in (self.subject_quality, self.subject) if word]
        what = [word[language] for word in (self.quality, self.thing) if word]
        where = [self.place[language]] if self.place else []
        deed = self.deed[language]
        if language == 0:
            return ["the", *who, deed, "the", *what, *where]
        if language == 1:
            return [*who, "は", *(where + ["で"] if where else []), *what, "を", deed]
        return [*who, *(["在", *where] if where else []), deed, *what]


@dataclass(frozen=True)
class Sentence:
    """A time, and the clauses."""

    time: Word
    clauses: tuple[Clause, ...]

    def english(self) -> tuple[str, str, str, str]:
        """Return four translations; the first is the usual one."""
        time, clauses = self.time[0], [" ".join(clause.words(0)) for clause in self.clauses]
        first = f"{time} {', and '.join(clauses)}."
        second = f"{', and '.join(clauses)} {time}."
        third = f"{time}, {' and '.join(clauses)}."
        fourth = f"{' and '.join(clauses)}, {time}."
        return _capital(first), _capital(second), _capital(third), _capital(fourth)

    def japanese(self) -> list[str]:
        """Return the words, which are joined without spaces."""
        return [self.time[1], "、", *_chain([clause.words(1) for clause in self.clauses], ["、", "そして"]), "。"]

    def chinese(self) -> list[str]:
        """Return the words, which are joined without spaces."""
        return [self.time[2], *_chain([clause.words(2) for clause in self.clauses], ["，", "而且"]), "。"]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _chain(clauses: Sequence[list[str]], between: list[str]) -> list[str]:
    return [word for number, words in enumerate(clauses) for word in (between if number else []) + words]


def sentences(seed: int) -> Iterator[Sentence]:
    """Yield sentences of one to three clauses without end."""
    chance = random.Random(seed)

    def perhaps(table: Sequence[Word]) -> Word | None:
        return chance.choice(table) if chance.random() < 0.5 else None

    def clause() -> Clause:
        subject, thing, deed = (chance.choice(table) for table in (PEOPLE, THINGS, DEEDS))
        whose, what, place = perhaps(QUALITIES), perhaps(QUALITIES), perhaps(PLACES)
        return Clause(subject_quality=whose, subject=subject, quality=what, thing=thing, deed=deed, place=place)

    while True:
        time = chance.choice(chance.choice((TIMES, YEARS)))
        yield Sentence(time, tuple(clause() for _ in range(chance.choice((1, 1, 2, 3)))))


def take(source: Iterator[Sentence], count: int) -> list[Sentence]:
    """Return the next sentences."""
    return [next(source) for _ in range(count)]


def aspec(folder: Path) -> None:
    """Write ASPEC-JE: `score ||| id ||| number ||| Japanese ||| English`; no score in dev, devtest and test."""
    source = sentences(1)
    sizes = {"train/train-1": 900, "train/train-2": 600, "train/train-3": 100, "dev/dev": 100, "test/test": 100}
    for place, (name, count) in enumerate({**sizes, "devtest/devtest": 20}.items()):
        lines = []
        for number, sentence in enumerate(take(source, count), 1):
            text = " ||| ".join([f"A-{place:02}A{number:07}", "1", "".join(sentence.japanese()), sentence.english()[0]])
            lines.append(f"{1 - number / 10000:.6f} ||| {text}" if name.startswith("train") else text)
        write(folder / f"{name}.txt", lines)


def tanaka_enja(folder: Path) -> None:
    """Write {train,dev,test}.{en,ja}.gz: Japanese in words, English in lower-cased words."""
    source = sentences(2)
    for name, count in {"train": 1500, "dev": 100, "test": 100}.items():
        taken = take(source, count)
        english = [sentence.english()[0].lower().replace(".", " .").replace(",", " ,") for sentence in taken]
        write(folder / f"{name}.en.gz", english)
        write(folder / f"{name}.ja.gz", [" ".join(sentence.japanese()) for sentence in taken])


def document(name: str, texts: Sequence[str], attributes: str = "") -> list[str]:
    """Return the lines of one document of a test set."""
    segments = [f'<seg id="{number}"> {escape(text, quote=False)} </seg>' for number, text in enumerate(texts, 1)]
    return [f'<doc docid="{name}"{attributes}>', "<p>", *segments, "</p>", "</doc>"]


def write_sgm(path: Path, kind: str, documents: Sequence[Sequence[str]]) -> None:
    """Write a test set; kind: srcset or refset."""
    languages = 'srclang="Chinese"' + (' trglang="English"' if kind == "refset" else "")
    write(path, [f'<{kind} setid="mini" {languages}>', *(line for lines in documents for line in lines), f"</{kind}>"])


def parts(items: Sequence[Sentence], size: int) -> list[tuple[str, Sequence[Sentence]]]:
    """Return documents of `size` sentences, with their names."""
    return [(f"MINI{start:05}", items[start : start + size]) for start in range(0, len(items), size)]


def nist(folder: Path) -> None:
    """Write NIST Chinese-English: training text below train/, MT02 to MT06 as .sgm with four references."""
    source = sentences(3)
    for name, suffix, count in (("news", "", 900), ("hansards", ".gz", 500)):
        taken = take(source, count)
        write(folder / f"train/{name}.zh{suffix}", ["".join(sentence.chinese()) for sentence in taken])
        write(folder / f"train/{name}.en{suffix}", [sentence.english()[0] for sentence in taken])
    taken = take(source, 200)
    for lang, kind, text in (("zh", "srcset", Sentence.chinese), ("en", "refset", lambda item: [item.english()[0]])):
        documents = [document(name, ["".join(text(item)) for item in items]) for name, items in parts(taken, 25)]
        write_sgm(folder / f"train/magazine.{lang}.sgm", kind, documents)
    for year, count in {"02": 100, "03": 60, "04": 50, "05": 40, "06": 30}.items():
        grouped = parts(take(source, count), 10)
        stem = f"mt{year}_chinese_evlset_v0"
        chinese = [document(name, ["".join(item.chinese()) for item in items]) for name, items in grouped]
        write_sgm(folder / f"{stem}-src.sgm", "srcset", chinese)
        english = [
            document(name, [item.english()[number] for item in items], f' sysid="E0{number + 1}"')
            for number in range(4)
            for name, items in grouped
        ]
        write_sgm(folder / f"{stem}-ref.sgm", "refset", english)


def wmt17_zh_en(folder: Path) -> None:
    """Write the archives of WMT17's Chinese-English task; some CWMT corpora have several pieces, as the real ones."""
    source = sentences(4)

    def pair(chinese: str, english: str, count: int, joint: str = "") -> dict[str, bytes]:
        taken = take(source, count)
        texts = [joint.join(item.chinese()) for item in taken]
        return {chinese: as_text(texts), english: as_text(item.english()[0] for item in taken)}

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
        grouped = parts(take(source, count), 10)
        files = {}
        for end, kind, attributes in (("src.zh", "srcset", ""), ("ref.en", "refset", ' sysid="ref"')):
            lines = [f'<{kind} setid="{name}" srclang="any">']
            for title, items in grouped:
                said = ["".join(item.chinese()) if end == "src.zh" else item.english()[0] for item in items]
                lines += document(title, said, attributes)
            files[f"{part}/{name}-zhen-{end}.sgm"] = as_text([*lines, f"</{kind}>"])
        archive(folder / f"{part}.tgz", files)


CORPORA: dict[str, Callable[[Path], None]] = {
    "aspec": aspec,
    "nist": nist,
    "tanaka_enja": tanaka_enja,
    "wmt17_zh_en": wmt17_zh_en,
}
