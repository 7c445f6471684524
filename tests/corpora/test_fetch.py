"""Downloads: checked, continued, kept for all preparations; archives of one's own; what is unpacked of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from corpora.errors import DataError, UsageError
from corpora.mini import files as mini_files
from corpora.preparations import fetch, summaries
from corpora.preparations.options import Given
from corpora.text import unpack
from support.corpora.prep import DATA_PREP, clean_environment, command, lines_of, wait_for_processes

ARCHIVE = "ftp://who:pass@data.example/wmt/news.tgz"
TEXT = "http://x.example/news.txt"  # whose checksum is that of its text, which is compared later
UNKNOWN = "http://x.example/table.tgz?dl=1"  # whose checksum nobody has published


def given_for(out: Path, **options: object) -> Given:
    """Return the command line of a preparation of this folder."""
    return Given(**{"name": "prepare_x", "out": out, "local": None, "mirror": "", "no_checksums": False} | options)


@pytest.fixture()
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An official archive on a server; checksums.txt names it, and others."""
    (tmp_path / "server").mkdir()
    served = tmp_path / "server/news.tgz"
    mini_files.archive(served, {"news/a.txt": os.urandom(2000), "news/b.txt": b"b\n"})
    rows = [(ARCHIVE, served.stat().st_size, fetch.sum_of("sha256", served)), (TEXT, "-", "text"), (UNKNOWN, "-", "-")]
    (tmp_path / "checksums.txt").write_text("".join("{}  {}  {}\n".format(*row) for row in rows))
    monkeypatch.setattr(fetch, "CHECKSUMS", tmp_path / "checksums.txt")
    monkeypatch.setenv("LOCALATTN_DOWNLOADS", str(tmp_path / "all"))
    return served


def obtained(served: Path, out: str, url: str = ARCHIVE, **options: object) -> fetch.Found:
    given = given_for(served.parents[1] / out, **{"mirror": served.parent.as_uri(), **options})
    return fetch.obtain(given, url)


def test_downloads_are_checked_and_continued(served: Path):
    whole, out = served.read_bytes(), served.parents[1] / "out/download"
    served.write_bytes(whole[:-30])
    with pytest.raises(UsageError, match=rf"news.tgz is not the whole file .*expected {len(whole)} bytes, found"):
        obtained(served, "out")
    assert [path.name for path in (served.parents[1] / "all/data.example/wmt").iterdir()] == [".lock"]
    with pytest.raises(UsageError, match=r"news.tgz is not the whole file .*unexpected end of file"):
        obtained(served, "out", no_checksums=True)
    assert not list(out.iterdir())
    served.rename(served.with_name("gone"))
    with pytest.raises(UsageError, match=r"download of .*/news.tgz failed .*; run again to continue, or use --local"):
        obtained(served, "out", no_checksums=True)
    served.write_bytes(whole)
    (out / "news.tgz.part").write_bytes(whole[:500])  # as a killed download leaves it
    assert obtained(served, "out", no_checksums=True) == (out / "news.tgz", False)
    assert (out / "news.tgz").read_bytes() == whole and [path.name for path in out.iterdir()] == ["news.tgz"]
    with pytest.raises(UsageError, match="does not name"):
        obtained(served, "out", "http://x/y")


def test_official_files_are_downloaded_once_for_all_preparations(served: Path):
    whole, shared = served.read_bytes(), served.parents[1] / "all/data.example/wmt/news.tgz"
    assert obtained(served, "one") == (shared, True) and shared.read_bytes() == whole
    served.rename(served.with_name("news.txt"))
    assert obtained(served, "two").path == shared and not (served.parents[1] / "two/download").exists()
    # What nobody can vouch for stays with the preparation; a stopped download is continued.
    own = served.parents[1] / "two/download/news.txt"
    own.parent.mkdir(parents=True)
    own.with_name("news.txt.part").write_bytes(b"mine")
    assert obtained(served, "two", TEXT).path == own and own.read_bytes() == b"mine" + whole[4:]
    shared.write_bytes(whole[:4] + b"\1" + whole[5:])  # the time in gzip's header
    served.write_bytes(whole)
    assert obtained(served, "four").path == shared and shared.read_bytes() == whole, "a damaged file is fetched again"


def test_a_file_without_an_address_stays_in_the_folder_of_downloads(served: Path):
    """Such as WMT16's, of a mirror."""
    assert fetch.official_folder(given_for(served.parent), "wmt16_en_de.tar.gz") == served.parents[1] / "all"


def test_what_has_no_checksum_is_kept_and_refused(served: Path):
    found, folder = served.rename(served.with_name("table.tgz")), served.parents[1] / "out/download"
    told = f"has {found.stat().st_size} bytes and the sha256 {fetch.sum_of('sha256', found)}: accept it by"
    told += f" --no-checksums or --local {folder} (in a table: --local x={folder}, or $X_DIR), or pin"
    with pytest.raises(UsageError, match=re.escape(told)):
        obtained(served, "out", UNKNOWN)
    found.unlink()
    assert obtained(served, "out", UNKNOWN, no_checksums=True).path.exists()


def test_archives_of_ones_own_are_checked(served: Path):
    local = served.parent
    assert obtained(served, "out", local=local) == (served, True)
    served.write_bytes(served.read_bytes()[:-30])
    with pytest.raises(UsageError, match="news.tgz is not the official file .*, or give --no-checksums"):
        obtained(served, "out", local=local)
    served.unlink()
    with pytest.raises(UsageError, match=f"has no news.tgz: get it from {ARCHIVE}"):
        obtained(served, "out", local=local)


def test_the_address_of_an_archive_is_that_of_the_archive_alone():
    """Not of the vocabulary that the same preparation needs."""
    mirror = "https://mine.example/ggw.zip"
    assert fetch.source_of(summaries.GIGAWORD, mirror) == mirror
    assert fetch.source_of(summaries.BERT, mirror) == summaries.BERT


def test_checksums_name_every_file_once():
    rows = [line.split() for line in lines_of(DATA_PREP / "checksums.txt") if line and not line.startswith("#")]
    assert len({row[0] for row in rows}) == len(rows)
    for url, size, checksum in rows:
        # A file that has no address any more is known by its name and checksum.
        assert re.match(r"(https?|ftp)://", url) or ("/" not in url and checksum != "-"), url
        assert re.fullmatch(r"(-|\d+) (-|text|[0-9a-f]{64}|md5:[0-9a-f]{32})", f"{size} {checksum}"), url
    assert [url.rpartition("/")[2] for url, _, checksum in rows if checksum == "-"] == [
        "agr_50_mostcommon_10K.tsv.gz?dl=1"
    ], "docs/data.md names the files whose download is refused"


def test_an_ended_preparation_takes_its_download_with_it(tmp_path):
    """Ended by a signal, it leaves none that goes on writing: here one from a pipe that nobody fills."""
    (tmp_path / "server").mkdir()
    os.mkfifo(tmp_path / "server/agr_50_mostcommon_10K.tsv.gz")
    out = tmp_path / "out"
    environment = clean_environment(SVA_URL=(tmp_path / "server").as_uri())
    words = command("sva", out, "--no-checksums")
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)

    wait_for_processes(1, out, "curl")
    subprocess.run(["sleep", "1"])  # Python loses a child whose start a signal interrupts
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    wait_for_processes(0, out, "curl")


@pytest.mark.parametrize("ending", [".tgz", ".tar", ".zip"])
def test_unpack(tmp_path, ending):
    archive, folder = tmp_path / f"a{ending}", tmp_path / "out"
    members = {"./one/a.txt": b"a", "one/b.txt": b"b" * 3000, "two/c.en": b"c", "two/c.de": b"d", "onetwo": b"e"}
    mini_files.archive(archive, members)
    assert unpack.unpack(archive, folder, ["one", "two/*.en"]) == 3
    files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert files == {"one/a.txt": b"a", "one/b.txt": b"b" * 3000, "two/c.en": b"c"}
    with pytest.raises(DataError, match="has no three"):
        unpack.unpack(archive, folder, ["three", "one"])


def test_another_archive_is_unpacked_anew(tmp_path):
    """What was unpacked of an archive that was not the official one must not stand for the official one."""
    archive, folder = tmp_path / "a.tgz", tmp_path / "unpacked"
    for text in (b"first\n", b"second\n"):
        mini_files.archive(archive, {"text": text})
        if folder.exists():  # file systems have coarse clocks
            os.utime(archive, (time.time() + 5, time.time() + 5))
        fetch.unpack_members(given_for(tmp_path), archive, folder, "text")
        assert (folder / "text").read_bytes() == text
    (tmp_path / "giga.en").write_text("one\n")  # members that were unpacked by hand are found
    assert fetch.obtain_members(given_for(tmp_path, local=tmp_path), "x", "giga.en.gz") == (tmp_path, False)
