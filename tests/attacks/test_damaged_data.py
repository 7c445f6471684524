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

from support.attacks.world import COMMANDS, World, assert_one_line, copied, run

pytestmark = pytest.mark.xdist_group("attacks")  # one world serves all


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
    Damage("empty index", ".idx", cut(0), "cut short, or empty"),
    Damage("half an index", ".idx", cut(0.5), "do not hold the"),
    Damage("2^60 sentences", ".idx", put(COUNT, struct.pack("<Q", 1 << 60)), "do not hold the"),
    Damage("no sentence", ".idx", lambda old: old[:COUNT] + bytes(8), "the split has no sentences"),
    Damage("negative size", ".idx", put(SIZES, struct.pack("<i", -5)), "size or the place of sentence 1 is damaged"),
    Damage("another type", ".idx", put(TYPE, b"\x01"), "size or the place of sentence 2 is damaged"),
    Damage("empty data", ".bin", cut(0), ".bin: 0 bytes, and "),
    Damage("half the data", ".bin", cut(0.5), "one of them is damaged"),
]
#: What a command reads → how it may be damaged.
DAMAGES: dict[str, list[Damage]] = {
    "dictionary": [
        Damage("invalid UTF-8", "", lambda old: b"\xff 3\n" + old, "dict.txt:1: invalid UTF-8"),
        Damage("a word twice", "", lambda old: old + old.splitlines(keepends=True)[0], "is there twice"),
        Damage("a special symbol", "", lambda old: b"<pad> 7\n" + old, ":1: the word '<pad>' is there twice, or is a"),
        Damage("no count", "", lambda old: b"word\n" + old, ":1: expected a word, a blank and its count, found 'word'"),
        Damage("empty", "", cut(0), "no words in it"),
    ],
    "tags": [
        Damage("invalid UTF-8", "", lambda old: b"\xff 3\n" + old, "phrases.txt:1: invalid UTF-8"),
        Damage("no count", "", lambda old: b"NP\n" + old, ":1: expected a word, a blank and its count, found 'NP'"),
    ],
    "settings": [
        Damage("empty", "", cut(0), "phrases.json: damaged (JSONDecodeError"),
        Damage("invalid UTF-8", "", whole(b"\xff"), "phrases.json: damaged (UnicodeDecodeError"),
        Damage("a list", "", whole(b"[1]"), "phrases.json: damaged (TypeError"),
        Damage("no level", "", whole(b'{"levels": 0, "subwords": "none"}'), "phrases.json: damaged: 0 levels"),
        Damage("10^9 levels", "", whole(b'{"levels": 1000000000, "subwords": "none"}'), "damaged: 1000000000 levels"),
    ],
    "index": WHOLE_INDEX,
    "data": [
        *WHOLE_INDEX,
        Damage("unknown word", ".bin", put(0, b"\xff\xfe"), "number 65279 of a word, and the dictionary has"),
    ],
    "phrases": [
        *WHOLE_INDEX,
        Damage("negative subwords", ".bin", put(0, struct.pack("<i", -3)), "has phrases for -3 subwords"),
        Damage("2^30 phrases", ".bin", put(8, struct.pack("<i", 1 << 30)), "sentence 1: packed phrases of"),
        Damage("negative length", ".bin", put(20, struct.pack("<i", -(1 << 30))), "with a negative number"),
    ],
}  # fmt: skip
# The first command that reads such a file shows every damage, those of an index once; each other command shows one.
FIRST = {at: command for command, (_, _, reads) in reversed(COMMANDS.items()) for at in reads}
PAIRS = [
    pytest.param(command, at, damage)
    for at, command in FIRST.items() for damage in DAMAGES[at] if at == "data" or damage not in WHOLE_INDEX[1:]
] + [
    pytest.param(command, at, DAMAGES[at][place % len(DAMAGES[at])], marks=pytest.mark.slow)
    for place, (command, (_, _, reads)) in enumerate(COMMANDS.items()) for at in reads if command != FIRST[at]
]  # fmt: skip


def name(value: object) -> str | None:
    return value.what if isinstance(value, Damage) else None


@pytest.mark.parametrize("command", [
    command if command in FIRST.values() else pytest.param(command, marks=pytest.mark.slow)
    for command in COMMANDS if COMMANDS[command].reads
])  # fmt: skip
def test_whole_data_are_read(command: str, world: World, tmp_path: Path) -> None:
    """Each command as it is called here succeeds; without this, its refusals would show nothing."""
    done = run(world, command, copied(world, command, tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(("command", "at", "damage"), PAIRS, ids=name)
def test_damaged(command: str, at: str, damage: Damage, world: World, tmp_path: Path) -> None:
    data = copied(world, command, tmp_path)
    file = data / (COMMANDS[command].reads[at] + damage.ending)
    file.write_bytes(damage.change(file.read_bytes()))
    says = damage.says.removeprefix("dict.txt")
    assert_one_line(run(world, command, data), str(file).rpartition(".")[0], says)


# ------------------------------------------------------------------ trees

DEEP = 100_000
#: What the fourth line of the trees is → what the error says. The text has four sentences in it.
BAD_TREES: dict[str, tuple[bytes, str]] = {
    "invalid UTF-8": (b"(S (A \xff))", "test.xx.tree:4: invalid UTF-8 at byte 7 of the line"),
    "not closed": (b"(S (A a) (B b)", "test.xx.tree:4: unbalanced brackets: 1 not closed"),
    "an empty node": (b"(S (A ))", "test.xx.tree:4: an empty node"),
    "other words": (b"(S (A a))", "test.xx.tree:4: the tree has 1 leaves"),
    "deep": (b"(A " * DEEP + b"a" + b")" * DEEP, "test.xx.tree:4: the tree has 1 leaves"),
    "a special symbol": (b"(S %s)", "test.xx.tree:4: the label <pad> is a special symbol of fairseq's dictionaries"),
    "a line too many": (b"\n(S (A a))", "no such line"),
}


@pytest.mark.parametrize("kind", BAD_TREES)
def test_damaged_trees(kind: str, world: World, tmp_path: Path) -> None:
    new, says = BAD_TREES[kind]
    data = copied(world, "binarize", tmp_path)
    (data / "texts").mkdir()
    for path in world.folder.glob("*.xx*"):
        if path.suffix in (".xx", ".tree"):
            shutil.copy(path, data / "texts")
    tree = data / "texts" / "test.xx.tree"
    lines = tree.read_bytes().split(b"\n")
    if kind == "a special symbol":
        words = (world.folder / "test.xx").read_bytes().split(b"\n")[3].split()
        new %= b" ".join(b"(<pad> %s)" % word for word in words)
    tree.write_bytes(b"\n".join([*lines[:3], new, b""]))
    before = sorted(path.name for path in data.iterdir())
    assert_one_line(run(world, "binarize", data), str(data / "texts"), says)
    assert sorted(path.name for path in data.iterdir()) == before
