"""The bench of the engine's tests, with figures of scores among its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tables.bench import Bench

BY_LENGTH = """\
# Figure 2 of Cui et al. 2019: BLEU by source length.
extends: base/full.yaml
small: base/small.yaml
baseline: plain
metric: bleu_by_length
rows:
  plain: {same_as: table1/plain}
  mma: {same_as: table1/mma}
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    found = Bench(tmp_path, monkeypatch)
    found.write("fig2", BY_LENGTH)
    found.write("ngrams", BY_LENGTH.replace("bleu_by_length", "bleu_by_ngram"))
    return found
