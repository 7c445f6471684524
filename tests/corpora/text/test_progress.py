"""Progress of long loops in a log."""

from __future__ import annotations

import os
from pathlib import Path

from corpora.progress import progress
from corpora.text import watch
from fairseq_localattn import progress as shared


def test_a_log_has_a_line_for_each_state(monkeypatch, capsys):
    monkeypatch.setattr(shared, "SECONDS", 0.0)
    assert list(progress(range(2000), "train.de", total=2000)) == list(range(2000))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2 and all(line.startswith("train.de: ") for line in lines)
    assert "2.00k/2.00k" in lines[-1]


def test_the_size_of_a_folder_in_which_one_vanishes(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    (tmp_path / "file").write_bytes(b"four")
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: scan(Path(path) / "gone" if Path(path).name == "gone" else path))
    assert watch.size(tmp_path) == watch.size(tmp_path / "file") == 4
    assert watch.size(tmp_path / "none") == 0
