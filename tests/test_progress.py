"""Progress of long work in a log and in a terminal."""

from __future__ import annotations

import sys
import threading

import pytest
import tqdm.std

from fairseq_localattn.progress import ProgressBar, progress_bar


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time that tqdm reads, as a list of one number of seconds."""
    now = [100.0]
    monkeypatch.setattr(tqdm.std, "time", lambda: now[0])
    return now


def test_a_log_has_a_line_every_15_seconds_with_the_time_left(clock, capsys):
    with progress_bar(4000, "sentences") as bar:
        bar.set_description("train", refresh=False)
        for _ in range(6):
            clock[0] += 10
            bar.update(500)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and "\r" not in err and len(lines) == 3
    assert "train:  25%" in lines[0] and "1.00k/4.00k [00:20<01:00, 50.0 sentences/s]" in lines[0]
    assert "3.00k/4.00k [01:00<00:19" in lines[2]


@pytest.mark.parametrize(
    ("skipped", "seconds", "items", "shown"),
    [(0, 14, 100, None), (60, 20, 20, "80.0/100 [00:20<00:20, 1.00 items/s]"), (0, 20, 0, "0.00/100 [00:20<?, ")],
    ids=["short work has no line", "skipped items do not shorten the time left", "a message without items"],
)
def test_lines_of_a_log(skipped, seconds, items, shown, clock, capsys):
    with progress_bar(100, "items") as bar:
        bar.skip(skipped)
        clock[0] += seconds
        bar.update(items)
    err = capsys.readouterr().err
    assert err == "" if shown is None else shown in err


def test_no_thread_is_started_before_a_fork(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(ProgressBar, "monitor", None)
    before = set(threading.enumerate())
    with progress_bar(10, "items") as bar:
        bar.update(5)
        assert set(threading.enumerate()) == before
