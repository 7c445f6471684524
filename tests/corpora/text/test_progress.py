"""Progress of long loops in a log."""

from __future__ import annotations

from corpora import progress


def test_a_log_has_a_line_for_each_state(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    assert list(progress.progress(range(2000), "train.de", total=2000)) == list(range(2000))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2 and all(line.startswith("train.de: ") for line in lines)
    assert "2.00k/2.00k" in lines[-1]


def test_a_short_loop_shows_nothing(capsys):
    assert list(progress.progress("ab", "train.de")) == ["a", "b"]
    with progress.progress(None, "BPE", total=3) as bar:
        bar.update(2)
    assert capsys.readouterr() == ("", "")
