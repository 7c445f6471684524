"""Damaged data and trees in every command that reads them: each ends in one line that names the file.

A case that is found later is one more line of :data:`DAMAGES` or :data:`BAD_TREES`.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from support.attacks.damaged import COMMANDS, Workshop, assert_one_line, binarised, copied, make_workshop

pytestmark = pytest.mark.xdist_group("attacks_on_data")  # one workshop serves all tests of two files


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return make_workshop(tmp_path_factory.getbasetemp() / "workshop")


# ------------------------------------------------------------------ damage


def cut(share: float) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: only the first ``share`` of them is left."""
    return lambda old: old[: int(len(old) * share)]


def put(place: int, new: bytes) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: ``new`` ones from ``place`` on."""
    return lambda old: old[:place] + new + old[place + len(new) :]


def whole(new: bytes) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: nothing is left of them."""
    return lambda old: new


class Damage(NamedTuple):
    """What is changed, the ending of the file, the change, and what the error says."""

    what: str
    ending: str
    change: Callable[[bytes], bytes]
    says: str


TYPE, COUNT, SIZES, OFFSETS = 17, 18, 26, 26 + 4 * 4  # places in an index of four sentences
WHOLE_INDEX = [
    Damage("magic", ".idx", put(0, b"X"), "no index of fairseq's, or damaged at its beginning"),
    Damage("version", ".idx", put(9, b"\x07"), "no index of fairseq's, or damaged at its beginning"),
    Damage("unknown type", ".idx", put(TYPE, b"c"), "no index of fairseq's, or damaged at its beginning"),
    Damage("empty index", ".idx", cut(0), "cut short, or empty"),
    Damage("header alone", ".idx", cut(0.2), ".idx: "),
    Damage("half an index", ".idx", cut(0.5), "do not hold the"),
    Damage("2^60 sentences", ".idx", put(COUNT, struct.pack("<Q", 1 << 60)), "do not hold the"),
    Damage("one sentence", ".idx", put(COUNT, struct.pack("<Q", 1)), "do not hold the 1 sentences"),
    Damage("no sentence", ".idx", lambda old: old[:COUNT] + bytes(8), "the split has no sentences"),
    Damage("negative size", ".idx", put(SIZES, struct.pack("<i", -5)), "size or the place of sentence 1 is damaged"),
    Damage("size of 2^31", ".idx", put(SIZES, struct.pack("<i", (1 << 31) - 1)), "size or the place of sentence"),
    Damage("another type", ".idx", put(TYPE, b"\x01"), "size or the place of sentence 2 is damaged"),
    Damage("empty data", ".bin", cut(0), ".bin: 0 bytes, and "),
    Damage("half the data", ".bin", cut(0.5), "one of them is damaged"),
    Damage("more data", ".bin", lambda old: old + b"1234", "one of them is damaged"),
]
#: What a command reads → how it may be damaged.
DAMAGES: dict[str, list[Damage]] = {
    "dictionary": [
        Damage("invalid UTF-8", "", lambda old: b"\xff 3\n" + old, "dict.txt:1: invalid UTF-8"),
        Damage("UTF-16", "", lambda old: old.decode().encode("utf-16"), ":1: invalid UTF-8"),
        Damage("a word twice", "", lambda old: old + old.splitlines(keepends=True)[0], "is there twice"),
        Damage("a special symbol", "", lambda old: b"<pad> 7\n" + old, ":1: the word '<pad>' is there twice, or is a"),
        Damage("no count", "", lambda old: b"word\n" + old, ":1: expected a word, a blank and its count, found 'word'"),
        Damage("cut in a line", "", lambda old: old + b"z", "expected a word, a blank and its count, found 'z'"),
        Damage("empty", "", cut(0), "no words in it"),
    ],
    "tags": [
        Damage("invalid UTF-8", "", lambda old: b"\xff 3\n" + old, "phrases.txt:1: invalid UTF-8"),
        Damage("a tag twice", "", lambda old: old + old.splitlines(keepends=True)[0], "is there twice"),
        Damage("no count", "", lambda old: b"NP\n" + old, ":1: expected a word, a blank and its count, found 'NP'"),
    ],
    "settings": [
        Damage("empty", "", cut(0), "phrases.json: damaged (JSONDecodeError"),
        Damage("invalid UTF-8", "", whole(b"\xff"), "phrases.json: damaged (UnicodeDecodeError"),
        Damage("nested", "", whole(b"[" * 100_000), "phrases.json: damaged (RecursionError"),
        Damage("a list", "", whole(b"[1]"), "phrases.json: damaged (TypeError"),
        Damage("no level", "", whole(b'{"levels": 0, "subwords": "none"}'), "phrases.json: damaged: 0 levels"),
        Damage("infinity", "", whole(b'{"levels": 1e999, "subwords": "none"}'), "phrases.json: damaged (OverflowErr"),
        Damage("10^9 levels", "", whole(b'{"levels": 1000000000, "subwords": "none"}'), "damaged: 1000000000 levels"),
        Damage("subwords", "", whole(b'{"levels": 3, "subwords": "bpe"}'), "damaged: 3 levels, subwords 'bpe'"),
    ],
    "index": WHOLE_INDEX,
    "data": [
        *WHOLE_INDEX,
        Damage("unknown word", ".bin", put(0, b"\xff\xfe"), "number 65279 of a word, and the dictionary has"),
    ],
    "phrases": [
        *WHOLE_INDEX,
        Damage("negative subwords", ".bin", put(0, struct.pack("<i", -3)), "has phrases for -3 subwords"),
        Damage("2^31 levels", ".bin", put(4, struct.pack("<i", (1 << 31) - 1)), "phrases on 2147483647 levels"),
        Damage("2^30 phrases", ".bin", put(8, struct.pack("<i", 1 << 30)), "sentence 1: packed phrases of"),
        Damage("negative phrases", ".bin", put(8, struct.pack("<i", -1)), "sentence 1: packed phrases of"),
        Damage("negative length", ".bin", put(20, struct.pack("<i", -(1 << 30))), "with a negative number"),
        Damage("length of 0", ".bin", put(20, bytes(4)), "sentence 1: level 1 of packed phrases has lengths"),
    ],
}  # fmt: skip
PAIRS = [
    (command, at, damage)
    for command, (_, reads) in COMMANDS.items()
    for at in reads
    for damage in DAMAGES[at]
]  # fmt: skip
# The first command that reads such a file shows every damage, those of an index once; each other command shows one.
FIRST = {at: command for command, (_, reads) in reversed(COMMANDS.items()) for at in reads}
QUICK = [
    (command, at, damage)
    for command, at, damage in PAIRS
    if command == FIRST[at] and (at == "data" or damage not in WHOLE_INDEX[1:])
]
SLOW = [
    (command, at, DAMAGES[at][place % len(DAMAGES[at])])
    for place, (command, (_, reads)) in enumerate(COMMANDS.items())
    for at in reads
    if command != FIRST[at]
]
LONG = [pair for pair in PAIRS if pair not in QUICK and pair not in SLOW]


def name(value: object) -> str | None:
    return value.what if isinstance(value, Damage) else None


def damage_and_run(workshop: Workshop, command: str, at: str, damage: Damage, folder: Path) -> None:
    data = copied(workshop, command, folder)
    run, reads = COMMANDS[command]
    file = data / (reads[at] + damage.ending)
    file.write_bytes(damage.change(file.read_bytes()))
    says = damage.says.removeprefix("dict.txt")
    assert_one_line(run(workshop, data), str(file).rpartition(".")[0], says)


@pytest.mark.parametrize(
    "command",
    [command if command in FIRST.values() else pytest.param(command, marks=pytest.mark.slow) for command in COMMANDS],
)
def test_whole_data_are_read(command: str, workshop: Workshop, tmp_path: Path) -> None:
    """Each command as it is called here succeeds; without this, its refusals would show nothing."""
    done = COMMANDS[command][0](workshop, copied(workshop, command, tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(("command", "at", "damage"), QUICK, ids=name)
def test_damaged(command: str, at: str, damage: Damage, workshop: Workshop, tmp_path: Path) -> None:
    damage_and_run(workshop, command, at, damage, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "at", "damage"), SLOW, ids=name)
def test_damaged_in_every_command(command: str, at: str, damage: Damage, workshop: Workshop, tmp_path: Path) -> None:
    damage_and_run(workshop, command, at, damage, tmp_path)


@pytest.mark.attack
@pytest.mark.parametrize(("command", "at", "damage"), LONG, ids=name)
def test_every_damage_in_every_command(
    command: str, at: str, damage: Damage, workshop: Workshop, tmp_path: Path
) -> None:
    damage_and_run(workshop, command, at, damage, tmp_path)


# ------------------------------------------------------------------ trees

DEEP, WIDE = 100_000, 10_000
#: What the fourth line of the trees is → what the error says. The text has four sentences in it.
BAD_TREES: dict[str, tuple[bytes, str]] = {
    "invalid UTF-8": (b"(S (A \xff))", "test.xx.tree:4: invalid UTF-8 at byte 7 of the line"),
    "not closed": (b"(S (A a) (B b)", "test.xx.tree:4: unbalanced brackets: 1 not closed"),
    "closed twice": (b"(S (A a)))", "test.xx.tree:4: unbalanced brackets"),
    "text": (b"<!DOCTYPE html>", "test.xx.tree:4: a tree begins with a bracket"),
    "two words": (b"(S a b)", "test.xx.tree:4: a node with two words or more"),
    "an empty node": (b"(S (A ))", "test.xx.tree:4: an empty node"),
    "other words": (b"(S (A a))", "test.xx.tree:4: the tree has 1 leaves"),
    "deep": (b"(A " * DEEP + b"a" + b")" * DEEP, "test.xx.tree:4: the tree has 1 leaves"),
    "wide": (b"(S " + b"(A a) " * WIDE + b")", f"test.xx.tree:4: the tree has {WIDE} leaves"),
    "a special symbol": (b"(S %s)", "test.xx.tree:4: the label <pad> is a special symbol of fairseq's dictionaries"),
    "a line too many": (b"\n(S (A a))", "no such line"),
    "a NUL": (b"\0", "test.xx.tree:4: a tree begins with a bracket"),
}


@pytest.mark.parametrize("kind", BAD_TREES)
def test_damaged_trees(kind: str, workshop: Workshop, tmp_path: Path) -> None:
    new, says = BAD_TREES[kind]
    data = copied(workshop, "binarize", tmp_path)
    (data / "texts").mkdir()
    for path in workshop.folder.glob("*.xx*"):
        if path.suffix in (".xx", ".tree"):
            shutil.copy(path, data / "texts")
    tree = data / "texts" / "test.xx.tree"
    lines = tree.read_bytes().split(b"\n")
    if kind == "a special symbol":
        words = (workshop.folder / "test.xx").read_bytes().split(b"\n")[3].split()
        new %= b" ".join(b"(<pad> %s)" % word for word in words)
    tree.write_bytes(b"\n".join([*lines[:3], new, b""]))
    before = sorted(path.name for path in data.iterdir())
    assert_one_line(binarised(workshop, data), str(data / "texts"), says)
    assert sorted(path.name for path in data.iterdir()) == before
