"""Finds NIST's Chinese-English test sets and training text in a folder, checks them, and writes them as lines.

A test set, MT02 to MT06, is one of
    mt03.zh, mt03.en.ref0 … mt03.en.ref3         plain, one segment a line, or .gz
    mt03_chinese_evlset_v0-src.xml, …-ref.xml    NIST's .xml or .sgm, anywhere below FOLDER: names that begin with mt03
                                                 or nist03; only the name of the references contains `ref`
Training text is FOLDER/train.{zh,en} or all of FOLDER/train/*.{zh,en}, plain, .gz, .sgm or .xml (NAME.zh.sgm and
NAME.en.sgm). MT02 becomes RAW/valid, MT03 RAW/test, MT04 to MT06 RAW/test1 to test3: .zh, .en.ref0 to .ref3, and .en,
the first reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from corpora.errors import DataError
from corpora.progress import progress
from corpora.sources.sgm import read_set
from corpora.text.alignment import MIN_CORRELATION, check_lengths, pairs
from corpora.text.bitext import report, write_filled
from corpora.text.lines import write_lines
from corpora.text.markup import is_marked_up, read_texts

# Segments, from LDC2010T10, T11 and T14; those of MT04 (LDC2010T12) and the NIST part of MT06 (LDC2010T17) are unknown.
TEST_SETS: dict[str, tuple[str, int | None]] = {
    "02": ("valid", 878), "03": ("test", 919), "04": ("test1", None), "05": ("test2", 1082), "06": ("test3", None),
}  # fmt: skip
REFERENCES = 4
TRAINING = 1_250_000  # pairs: "about 1.25M" in the paper
OTHERS = ("arabic", "urdu", "english-to", "gale", "progress", "current")  # other sets in NIST's packages


def plain_or_gz(folder: Path, name: str) -> Path | None:
    """Return the file of this name, plain or .gz, ignoring case, or None."""
    return next((path for path in sorted(folder.iterdir()) if path.name.lower() in (name, f"{name}.gz")), None)


def marked_up_set(folder: Path, year: str) -> tuple[Path, Path] | None:
    """Return the files of source and references of MT`year` below the folder, XML before SGML, or None.

    Raises DataError where there are several.
    """
    begins = re.compile(rf"(?:mt|nist)[-_]?(?:20)?{year}(?!\d)", re.IGNORECASE)
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and is_marked_up(path) and begins.match(path.name)
        if not any(word in path.name.lower() for word in OTHERS)
    ]
    for kind in (".xml", ".sgm"):
        of_kind = [path for path in found if path.name.lower().removesuffix(".gz").endswith(kind)]
        references = [path for path in of_kind if "ref" in path.name.lower()]
        sides = [path for path in of_kind if path not in references], references
        for side, name in zip(sides, ("source", "references"), strict=True):
            if len(side) > 1:
                raise DataError(f"{side[0]} and {side[1]}: which has the {name} of MT{year}? Move the other one away")
            if of_kind and not side:
                raise DataError(f"{of_kind[0]}: the {name} of MT{year} should be below {folder} too, and are not")
        if of_kind:
            return sides[0][0], sides[1][0]
    return None


def plain_set(folder: Path, source: Path, year: str, encoding: str) -> tuple[list[str], list[list[str]]]:
    """Return the lines of a plain test set, and those of each reference; raises DataError."""
    names = [f"mt{year}.en.ref{number}" for number in range(REFERENCES)]
    files = [plain_or_gz(folder, name) for name in names]
    for name, file in zip(names, files, strict=True):
        if file is None:
            found = sum(one is not None for one in files)
            raise DataError(f"{source}: has {found} references, {REFERENCES} wanted: there is no {folder / name}")
    sides: list[list[str]] = []
    for path in (source, *(file for file in files if file)):
        lines = [" ".join(text.split()) for _, text in read_texts(path, encoding)]
        if "" in lines:
            raise DataError(f"{path}:{lines.index('') + 1}: empty line")
        if sides and len(lines) != len(sides[0]):
            place = f"{path}:{min(len(lines), len(sides[0])) + 1}"
            raise DataError(f"{place}: misaligned: {len(lines)} lines here, {len(sides[0])} in {source}")
        sides.append(lines)
    return sides[0], sides[1:]


def write_test_sets(folder: Path, raw: Path, encoding: str) -> None:
    """Check and write all test sets; raises DataError."""
    for year, (split, official) in TEST_SETS.items():
        source = plain_or_gz(folder, f"mt{year}.zh")
        if source is not None:
            lines, references = plain_set(folder, source, year, encoding)
        else:
            files = marked_up_set(folder, year)
            if files is None:
                raise DataError(f"{folder}: no MT{year}, neither mt{year}.zh nor a mt{year}….xml or .sgm")
            lines, references = read_set(*files, REFERENCES, encoding)
        write_lines(raw / f"{split}.zh", lines)
        write_lines(raw / f"{split}.en", references[0])
        for number, reference in enumerate(references):
            write_lines(raw / f"{split}.en.ref{number}", reference)
        count = f"{len(lines):,} segments, {REFERENCES} references"
        print(f"{split}: MT{year}, {count}" + (f" (published: {official:,})" if official else ""), flush=True)


def training_pairs(folder: Path) -> list[tuple[Path, Path]]:
    """Return the pairs of training files in order of name; raises DataError where a side or all are missing."""
    form = re.compile(r"(.+)\.(zh|en)((?:\.sgm|\.xml)?(?:\.gz)?)")
    below = folder / "train"
    files = sorted(below.iterdir()) if below.is_dir() else sorted(folder.glob("train.*"))
    sides: dict[str, dict[str, Path]] = {}
    for path in files:
        if match := form.fullmatch(path.name):
            sides.setdefault(match[1], {}).setdefault(match[2], path)  # plain before .gz, as in find_file
    for found in sides.values():
        if len(found) < 2:
            path = next(iter(found.values()))
            other = "English" if "zh" in found else "Chinese"
            raise DataError(f"{path}: its {other} side is missing")
    if not sides:
        raise DataError(f"{folder}: no training text, neither train.zh and train.en nor train/*.zh and train/*.en")
    return [(found["zh"], found["en"]) for found in sides.values()]


def read_training(folder: Path, encoding: str, minimum: float) -> Iterator[tuple[str, str]]:
    """Yield the pairs of the training text, empty sides included; raises DataError where they are no translations."""
    for chinese, english in training_pairs(folder):
        if is_marked_up(chinese) and is_marked_up(english):
            lines, references = read_set(chinese, english, 1, encoding)
            found: Iterable[tuple[str, str]] = zip(lines, references[0], strict=True)
        else:
            sides = [read_texts(path, encoding) for path in (chinese, english)]
            together = check_lengths(chinese, english, pairs(chinese, english, sides), minimum)
            found = ((one, two) for (_, one), (_, two) in together)
        count = 0
        for one, two in progress(found, chinese.name, "pairs"):
            pair = " ".join(one.split()), " ".join(two.split())
            count += all(pair)
            yield pair
        report(chinese.name, count, None)


def prepare(folder: Path, raw: Path, encoding: str = "utf-8", minimum: float = MIN_CORRELATION) -> None:
    """Write test sets and training text; raises DataError.

    encoding: of all files; minimum: correlation of the lengths of the two sides of the training text, -1: any.
    """
    try:
        "".encode(encoding)
    except LookupError:
        reason = "there is no such encoding; utf-8, gb18030 or big5, for example"
        raise DataError(f"--encoding {encoding}: {reason}") from None
    write_test_sets(folder, raw, encoding)
    write_filled(read_training(folder, encoding, minimum), (raw / "train.zh", raw / "train.en"), TRAINING)
