"""Hostile archives and compressed files: refused in one line, with nothing left."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from corpora.errors import DataError
from corpora.text import expansion, lines, unpack
from support.attacks.faults import small_disk
from support.corpora.prep import assert_refused, attempt, prepare

Member = tuple[str, bytes | None, dict[str, object]]  # name, content, further fields of its header in a .tar

MEGABYTE = bytes(1_000_000)
TEXT = b"text\n" * 200
NOISE = random.Random(1).randbytes(9000)


@pytest.fixture(autouse=True)
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files unpack to 300 kB, not 100 MB, whatever their size: the attacks stay small."""
    monkeypatch.setattr(expansion, "ALWAYS", 300_000)


def tar(*members: Member, packed: Callable[[bytes], bytes] = bytes) -> bytes:
    """Return a .tar of members: name, content, further fields of the header."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content, fields in members:
            info = tarfile.TarInfo(name)
            info.size = len(content or b"")
            for key, value in fields.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(content or b""))
    return packed(out.getvalue())


def tgz(*members: Member) -> bytes:
    return tar(*members, packed=gzip.compress)


def zipped(*members: tuple[str, bytes], mode: int = 0) -> bytes:
    """Return a .zip; mode: of all members, as Unix has it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, mode << 16
            archive.writestr(info, content)
    return out.getvalue()


def patched(data: bytes, local: int, central: int, value: bytes) -> bytes:
    """Return a .zip with other bytes in each local header and in each entry of the central directory."""
    found = bytearray(data)
    for mark, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        at = found.find(mark)
        while at >= 0:
            found[at + offset : at + offset + len(value)] = value
            at = found.find(mark, at + 4)
    return bytes(found)


def long_header() -> bytes:
    """Return a .tar whose first header announces a gigabyte of name, which zeros would be."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + MEGABYTE)


GOOD: Member = ("one/a", TEXT, {})
ENCRYPTED = patched(zipped(("one/a", TEXT)), 6, 8, b"\x01\x00")
UNKNOWN = patched(zipped(("one/a", TEXT)), 8, 10, b"\x63\x00")
BOMB = ("unpacks to more than 100 times its size", "larger --max-expansion (or LOCALATTN_MAX_EXPANSION) than 100")
DAMAGED = ("damaged",)

# name of the archive → content, parts of the message
ARCHIVES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "bomb.zip": (zipped(("one/a", MEGABYTE)), BOMB),
    "empty files.tgz": (tgz(*((f"one/{number}", b"", {}) for number in range(200))), BOMB),
    "bomb in another member.tgz": (tgz(("two/a", MEGABYTE, {}), GOOD), BOMB),
    "header tells less.zip": (patched(zipped(("one/a", MEGABYTE)), 22, 24, struct.pack("<I", 10)), DAMAGED),
    "sum is wrong.zip": (patched(zipped(("one/a", TEXT)), 14, 16, struct.pack("<I", 1)), DAMAGED),
    "long name.tgz": (long_header(), ("a header of 1,073,741,824 bytes",)),
    "encrypted.zip": (ENCRYPTED, ("'one/a' is encrypted: unpack it by another program", "--local DIR")),
    "unknown method.zip": (UNKNOWN, ("cannot be read here", "compression method", "--local DIR")),
    "above.tgz": (tgz(("one/../../evil", TEXT, {})), ("would be written outside of the folder",)),
    "through a link.tgz": (
        tgz(("one/b", None, {"type": tarfile.SYMTYPE, "linkname": ".."}), ("one/b/evil", TEXT, {})), ("is a link",)
    ),
    "link.zip": (zipped(("one/b", b"/etc"), mode=stat.S_IFLNK | 0o777), ("'one/b' is a link or a device",)),
    "file and folder.tgz": (tgz(GOOD, ("one/a/b", TEXT, {})), ("'one/a/b' is a file and a folder",)),
    "line break.tgz": (tgz(("one/../\nb", TEXT, {})), ("'one/../\\nb'",)),
    "cut.tar.xz": (tar(("one/a", NOISE, {}), packed=lzma.compress)[:4000], DAMAGED),
    "text.tgz": (TEXT, DAMAGED),
}  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archive(name: str, tmp_path: Path) -> None:
    content, messages = ARCHIVES[name]
    archive = tmp_path / name
    archive.write_bytes(content)
    for folder in (tmp_path / "out", tmp_path / "old"):
        if folder.name == "old":
            (folder / "one").mkdir(parents=True)
        assert_refused(attempt(unpack.unpack, archive, folder, ["one"]), f"data error: {archive}", *messages)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "old"]), "something is left"
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["one"], "an older folder is changed"


@pytest.mark.parametrize("name", ["bomb.zip", "encrypted.zip"])
def test_hostile_archive_is_found_by_the_check_of_downloads(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(ARCHIVES[name][0])
    assert_refused(attempt(unpack.check, tmp_path / name), f"data error: {tmp_path / name}", *ARCHIVES[name][1])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_option_raises_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "bomb.zip"
    archive.write_bytes(ARCHIVES["bomb.zip"][0])
    monkeypatch.setenv(expansion.VARIABLE, "2000")
    assert attempt(unpack.unpack, archive, tmp_path / "out", ["one"]).returncode == 0
    assert (tmp_path / "out/one/a").stat().st_size == len(MEGABYTE)
    monkeypatch.setenv(expansion.VARIABLE, "many")
    assert_refused(
        attempt(unpack.unpack, archive, tmp_path / "out", ["one"]), "LOCALATTN_MAX_EXPANSION=many: a number from 1"
    )
    assert_refused(prepare("sst", tmp_path / "out", "--max-expansion", "x"), "--max-expansion needs a number from 1")


def test_compressed_text_has_the_same_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"\n".join([b"a"] * 200_000) + b"\n"))
    with pytest.raises(DataError) as caught:
        list(lines.read_bytes(path))
    for part in (f"{path}: ", *BOMB):
        assert part in str(caught.value)
    monkeypatch.setenv(expansion.VARIABLE, "2000")
    assert sum(1 for _ in lines.read_bytes(path)) == 200_000


def test_what_is_not_wanted_may_be_a_link(tmp_path: Path) -> None:
    """Official archives have such members beside the text."""
    (tmp_path / "a.tgz").write_bytes(tgz(("latest", None, {"type": tarfile.SYMTYPE, "linkname": "one"}), GOOD))
    assert unpack.unpack(tmp_path / "a.tgz", tmp_path / "out", ["one"]) == 1


@pytest.mark.parametrize("size", [1000, 2_500_000])
def test_a_full_disk_is_no_damaged_archive(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small member is written when its file is closed, a large one in pieces."""
    monkeypatch.setattr(expansion, "ALWAYS", 10_000_000)
    archive = tmp_path / "a.zip"
    archive.write_bytes(zipped(("one/a", random.Random(2).randbytes(size))))
    with small_disk(tmp_path / "disk", 64) as disk:
        disk.fill()
        done = attempt(unpack.unpack, archive, disk.folder / "out", ["one"])
        assert_refused(done, f"data error: {disk.folder}/out.part/one/a: cannot be written: No space left on device")
        assert [path.name for path in disk.folder.iterdir()] == ["ballast"]


def test_damaged_archives(tmp_path: Path) -> None:
    """Bytes overwritten, removed or doubled at random: the good content, or one line, and never anything else."""
    chance = random.Random(1)
    wanted = {f"one/{number}": chance.randbytes(300) + TEXT for number in range(4)}
    entries: list[Member] = [(name, content, {}) for name, content in wanted.items()]
    kinds = {
        ".zip": zipped(*wanted.items()), ".tgz": tgz(*entries), ".tar": tar(*entries),
        ".tar.bz2": tar(*entries, packed=bz2.compress), ".tar.xz": tar(*entries, packed=lzma.compress),
    }  # fmt: skip
    for ending, whole in kinds.items():
        for trial in range(20):
            data = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                at, count = chance.randrange(len(data)), chance.randint(1, 8)
                data[at : at + count] = chance.choice([chance.randbytes(count), b"", bytes(data[at : at + count]) * 2])
            (tmp_path / f"a{ending}").write_bytes(data)
            try:
                unpack.unpack(tmp_path / f"a{ending}", tmp_path / "out", ["one"])
            except DataError as error:
                assert len(str(error).splitlines()) == 1, (ending, trial)
                assert not list(tmp_path.glob("*.part")), (ending, trial)
