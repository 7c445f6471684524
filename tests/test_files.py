"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairseq_localattn import files


def test_devices_and_links_stay(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("before")
    (tmp_path / "link").symlink_to("text")
    files.write_whole(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "text").read_text() == "after"
    files.check_file(Path("/dev/null"))
    files.write_whole(Path("/dev/null"), "nothing")
    assert not Path("/dev/null").is_file()
    with pytest.raises(files.OutputError, match="^/proc/version: cannot be written: File exists; a file stands"):
        files.check_file(Path("/proc/version/x"))
    with pytest.raises(files.OutputError, match="^/dev/full: cannot be written: No space left on device; free"):
        files.write_whole(Path("/dev/full"), "nothing")


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    """One that a group may write stays so; a new one has those of the umask."""
    files.write_whole(tmp_path / "new", "first")
    (tmp_path / "former").write_text("before")
    (tmp_path / "former").chmod(0o640)
    files.write_whole(tmp_path / "former", "after")
    assert (tmp_path / "former").stat().st_mode & 0o777 == 0o640 and (tmp_path / "former").read_text() == "after"
    (tmp_path / "plain").touch()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
