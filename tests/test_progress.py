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
    assert all(line.startswith("train: ") for line in lines)
    assert "1.00k/4.00k [00:20<01:00, 50.0 sentences/s]" in lines[0]
    assert "3.00k/4.00k [01:00<00:19" in lines[2]


def test_short_work_leaves_no_line_in_a_log(clock, capsys):
    with progress_bar(4, "items") as bar:
        clock[0] += 14
        bar.update(4)
    assert capsys.readouterr() == ("", "")


def test_items_of_an_earlier_run_do_not_shorten_the_time_left(clock, capsys):
    with progress_bar(100, "items") as bar:
        bar.skip(60)
        clock[0] += 20
        bar.update(20)
    assert "80.0/100 [00:20<00:20, 1.00 items/s]" in capsys.readouterr().err


def test_a_message_without_items_is_shown(clock, capsys):
    with progress_bar(100, "items") as bar:
        bar.set_description("states of train", refresh=False)
        clock[0] += 20
        bar.update(0)
    assert capsys.readouterr().err.startswith("states of train:   0%")


def test_no_thread_is_started_before_a_fork(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(ProgressBar, "monitor", None)
    before = set(threading.enumerate())
    with progress_bar(10, "items") as bar:
        bar.update(5)
        assert set(threading.enumerate()) == before
