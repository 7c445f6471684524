"""Hostile archives and compressed files: refused in one line, with nothing left."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from corpora.text import expansion, lines, unpack
from support.attacks.faults import small_disk
from support.corpora.prep import assert_refused, attempt, prepare

Member = tuple[str, bytes, dict[str, object]]  # name, content, further fields of its header in a .tar

MEGABYTE = bytes(1_000_000)
TEXT = b"text\n" * 200
GOOD: Member = ("one/a", TEXT, {})


@pytest.fixture(autouse=True)
def small_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files unpack to 300 kB, not 100 MB, whatever their size: the attacks stay small."""
    monkeypatch.setattr(expansion, "ALWAYS", 300_000)


def tar(*members: Member, packed: Callable[[bytes], bytes] = gzip.compress) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content, fields in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in fields.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(content))
    return packed(out.getvalue())


def zipped(*members: tuple[str, bytes], mode: int = 0) -> bytes:
    """Return a .zip; mode: of all members, as Unix has it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, mode << 16
            archive.writestr(info, content)
    return out.getvalue()


def zipped_as(flags: int, method: int) -> bytes:
    """Return a .zip of one member whose headers have other flags and another compression method."""
    version = b"\x14\x00"
    return zipped(("one/a", TEXT)).replace(version + b"\0\0\x08\0", version + bytes([flags, 0, method, 0]))


def long_header() -> bytes:
    """Return a .tar whose first header announces a gigabyte of name, which zeros would be."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + MEGABYTE)


BOMB = ("unpacks to more than 100 times its size", "larger --max-expansion (or LOCALATTN_MAX_EXPANSION) than 100")

# name of the archive → content, parts of the message
ARCHIVES: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "bomb.zip": (zipped(("one/a", MEGABYTE)), BOMB),
    "empty files.tgz": (tar(*((f"one/{number}", b"", {}) for number in range(200))), BOMB),
    "bomb in another member.tgz": (tar(("two/a", MEGABYTE, {}), GOOD), BOMB),
    "long name.tgz": (long_header(), ("a header of 1,073,741,824 bytes",)),
    "encrypted.zip": (zipped_as(1, 8), ("'one/a' is encrypted: unpack it by another program", "--local DIR")),
    "unknown method.zip": (zipped_as(0, 99), ("cannot be read here", "compression method", "--local DIR")),
    "above.tgz": (tar(("one/../\nevil", TEXT, {})), ("'one/../\\nevil' would be written outside of the folder",)),
    "link.tgz": (tar(("one/b", b"", {"type": tarfile.SYMTYPE, "linkname": ".."})), ("'one/b' is a link or a device",)),
    "link.zip": (zipped(("one/b", b"/etc"), mode=stat.S_IFLNK | 0o777), ("'one/b' is a link or a device",)),
    "file and folder.tgz": (tar(GOOD, ("one/a/b", TEXT, {})), ("'one/a/b' is a file and a folder",)),
    "cut.tar.xz": (tar(("one/a", random.Random(1).randbytes(9000), {}), packed=lzma.compress)[:4000], ("damaged",)),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archive(name: str, tmp_path: Path) -> None:
    content, messages = ARCHIVES[name]
    archive = tmp_path / name
    archive.write_bytes(content)
    (tmp_path / "old/one").mkdir(parents=True)
    assert_refused(attempt(unpack.unpack, archive, tmp_path / "old", ["one"]), f"data error: {archive}", *messages)
    if name in ("bomb.zip", "encrypted.zip"):  # a download is read before it is unpacked
        assert_refused(attempt(unpack.check, archive), f"data error: {archive}", *messages)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "old"]), "something is left"
    assert [path.name for path in (tmp_path / "old").iterdir()] == ["one"], "an older folder is changed"


def test_an_option_raises_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives and compressed text have one bound."""
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"a\n" * 200_000))
    assert_refused(attempt(lambda: list(lines.read_bytes(path))), f"data error: {path}: ", *BOMB)
    monkeypatch.setenv(expansion.VARIABLE, "2000")
    assert sum(1 for _ in lines.read_bytes(path)) == 200_000
    (tmp_path / "bomb.zip").write_bytes(ARCHIVES["bomb.zip"][0])
    assert unpack.unpack(tmp_path / "bomb.zip", tmp_path / "out", ["one"]) == 1
    assert (tmp_path / "out/one/a").stat().st_size == len(MEGABYTE)
    monkeypatch.setenv(expansion.VARIABLE, "many")
    assert_refused(attempt(unpack.check, path), "LOCALATTN_MAX_EXPANSION=many: a number from 1")
    assert_refused(prepare("sst", tmp_path / "out", "--max-expansion", "x"), "--max-expansion needs a number from 1")


def test_what_is_not_wanted_may_be_a_link(tmp_path: Path) -> None:
    """Official archives have such members beside the text."""
    (tmp_path / "a.tgz").write_bytes(tar(("latest", b"", {"type": tarfile.SYMTYPE, "linkname": "one"}), GOOD))
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
    kinds = zipped(*wanted.items()), *(tar(*entries, packed=packed) for packed in (bytes, gzip.compress, lzma.compress))
    for whole in kinds:
        for _ in range(25):
            data = bytearray(whole)
            for _ in range(chance.randint(1, 4)):
                at, count = chance.randrange(len(data)), chance.randint(1, 8)
                data[at : at + count] = chance.choice([chance.randbytes(count), b"", bytes(data[at : at + count]) * 2])
            (tmp_path / "a").write_bytes(data)
            done = attempt(unpack.unpack, tmp_path / "a", tmp_path / "out", ["one"])
            if done.returncode:
                assert_refused(done, "data error: ")
                assert not list(tmp_path.glob("*.part"))
