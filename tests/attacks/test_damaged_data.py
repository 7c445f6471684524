"""Damaged data in every command that reads them: each ends in one line that names the file."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from support.attacks.world import COMMANDS, NO_CHECKPOINT, World, assert_one_line, copied, run

pytestmark = pytest.mark.xdist_group("attacks")  # one world serves all


def put(place: int, new: bytes) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: ``new`` ones from ``place`` on."""
    return lambda old: old[:place] + new + old[place + len(new) :]


def whole(new: bytes) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: nothing is left of them."""
    return lambda old: new


class Damage(NamedTuple):
    """The ending of the file, its change, and what the error says."""

    ending: str
    change: Callable[[bytes], bytes]
    says: str


#: What a command reads → how it may be damaged. Other damages: tests/compat/test_data.py.
DAMAGES: dict[str, list[Damage]] = {
    "dictionary": [Damage("", lambda old: b"\xff 3\n" + old, ":1: invalid UTF-8")],
    "tags": [Damage("", lambda old: b"NP\n" + old, ":1: expected a word, a blank and its count, found 'NP'")],
    "settings": [
        Damage("", whole(b"\xff"), "phrases.json: damaged (UnicodeDecodeError"),
        Damage("", whole(b"[1]"), "phrases.json: damaged (TypeError"),
        Damage("", whole(b'{"levels": 0, "subwords": "none"}'), "phrases.json: damaged: 0 levels"),
    ],
    "index": [Damage(".idx", put(0, b"X"), "no index of fairseq's, or damaged at its beginning")],
    "data": [Damage(".bin", put(0, b"\xff\xfe"), "number 65279 of a word, and the dictionary has")],
    "phrases": [
        Damage(".bin", put(0, struct.pack("<i", -3)), "has phrases for -3 subwords"),
        Damage(".bin", put(8, struct.pack("<i", 1 << 30)), "sentence 1: packed phrases of"),
        Damage(".bin", put(20, struct.pack("<i", -(1 << 30))), "with a negative number"),
    ],
}  # fmt: skip
# The first command that reads such a file shows every damage; each other command shows one.
FIRST = {at: command for command, (_, _, reads) in reversed(COMMANDS.items()) for at in reads}
PAIRS = [(command, at, damage) for at, command in FIRST.items() for damage in DAMAGES[at]] + [
    pytest.param(command, at, DAMAGES[at][-1], marks=pytest.mark.slow)
    for command, (_, _, reads) in COMMANDS.items() for at in reads if command != FIRST[at]
]  # fmt: skip


# The others are called so in test_checkpoints.py.
@pytest.mark.parametrize("command", NO_CHECKPOINT)
def test_whole_data_are_read(command: str, world: World, tmp_path: Path) -> None:
    """Each command as it is called here succeeds; without this, its refusals would show nothing."""
    done = run(world, command, copied(world, command, tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize(("command", "at", "damage"), PAIRS)
def test_damaged(command: str, at: str, damage: Damage, world: World, tmp_path: Path) -> None:
    data = copied(world, command, tmp_path)
    file = data / (COMMANDS[command].reads[at] + damage.ending)
    file.write_bytes(damage.change(file.read_bytes()))
    assert_one_line(run(world, command, data), str(file).rpartition(".")[0], damage.says)
