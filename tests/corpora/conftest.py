"""Prepared mini corpora, made once for all tests of a worker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.corpora.preparations import CASES, LIBRARIES, Prepared, prepare_in_two_runs


@pytest.fixture(scope="session")
def preparation(tmp_path_factory) -> Callable[[str], Prepared]:
    """Return name of a preparation → its prepared mini corpus; skips the test where its library is missing."""
    done: dict[str, Prepared] = {}

    def get(name: str) -> Prepared:
        if name in LIBRARIES:
            pytest.importorskip(LIBRARIES[name])
        if name not in done:
            done[name] = prepare_in_two_runs(CASES[name], tmp_path_factory.mktemp(name))
        return done[name]

    return get
