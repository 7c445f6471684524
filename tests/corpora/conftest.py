"""Prepared mini corpora, made once for all tests of a worker."""

from __future__ import annotations

import pytest

from support.corpora.preparations import CASES, LIBRARIES, Prepared, prepare_in_two_runs

_made: dict[str, Prepared] = {}


@pytest.fixture()
def done(request, tmp_path_factory) -> Prepared:
    """Return the prepared mini corpus of the test's group; skips the test where its library is missing."""
    (name,) = request.node.get_closest_marker("xdist_group").args
    if name in LIBRARIES:
        pytest.importorskip(LIBRARIES[name])
    if name not in _made:
        _made[name] = prepare_in_two_runs(CASES[name], tmp_path_factory.mktemp(name))
    return _made[name]
