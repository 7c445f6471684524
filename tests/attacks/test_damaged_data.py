"""Damaged data: each kind of file, in a command that reads it, is named in one line."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from fairseq_localattn.analysis.locality import command as locality
from support.attacks.world import Run, World, analysed, assert_one_line, binarised

pytestmark = pytest.mark.xdist_group("attacks")  # one world serves all


def put(place: int, new: bytes) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: ``new`` ones from ``place`` on."""
    return lambda old: old[:place] + new + old[place + len(new) :]


def whole(new: bytes) -> Callable[[bytes], bytes]:
    """Return a change of a file's bytes: nothing is left of them."""
    return lambda old: new


PHRASES = "test.xx-yy.xx.phrases.bin"
#: A file, its change, and what the error says. Other damages: tests/compat/test_data.py.
DAMAGES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("dict.xx.txt", lambda old: b"\xff 3\n" + old, ":1: invalid UTF-8"),
    ("dict.xx.phrases.txt", lambda old: b"NP\n" + old, ":1: expected a word, a blank and its count, found 'NP'"),
    ("xx.phrases.json", whole(b"\xff"), ": damaged (UnicodeDecodeError"),
    ("xx.phrases.json", whole(b"[1]"), ": damaged (TypeError"),
    ("xx.phrases.json", whole(b'{"levels": 0, "subwords": "none"}'), ": damaged: 0 levels"),
    ("test.xx-yy.xx.bin", put(0, b"\xff\xfe"), "number 65279 of a word, and the dictionary has"),
    (PHRASES, put(0, struct.pack("<i", -3)), "has phrases for -3 subwords"),
    (PHRASES, put(8, struct.pack("<i", 1 << 30)), "sentence 1: packed phrases of"),
    (PHRASES, put(20, struct.pack("<i", -(1 << 30))), "with a negative number"),
    ("test.xx-yy.xx.idx", put(0, b"X"), "no index of fairseq's, or damaged at its beginning"),
]


@pytest.mark.parametrize(("name", "change", "says"), DAMAGES)
def test_damaged(name: str, change: Callable[[bytes], bytes], says: str, world: World, tmp_path: Path) -> None:
    command: Run = binarised if name.endswith(".idx") else analysed(locality)
    file = world.copy_of_data(tmp_path) / name
    file.write_bytes(change(file.read_bytes()))
    assert_one_line(command(file.parent, world.model("mgsa")), str(file).rpartition(".")[0], says)
