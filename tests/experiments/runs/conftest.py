"""Fixtures of the tests of runs."""

from __future__ import annotations

import pytest

from experiments.runs import schedule


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a schedule look at its runs every 20 ms."""
    monkeypatch.setattr(schedule, "POLL_SECONDS", 0.02)
