"""Every mini corpus: the same bytes each time."""

from __future__ import annotations

import pytest

from corpora.mini import corpus
from support.corpora.prep import contents, run
from support.corpora.preparations import CASES

NAMES = sorted(corpus.known_corpora())


def test_every_mini_corpus_is_prepared_by_the_contract():
    others = {"sst2", "sst5", "tanaka_enja"}  # sst and aspec with other options
    assert {case.name for case in CASES.values()} | others == {*NAMES, "toy", "multi30k", "lm", "parallel"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_a_mini_corpus_is_the_same_each_time(tmp_path, name):
    for folder in (tmp_path / "one", tmp_path / "two"):
        assert run(corpus.main, name, folder).returncode == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "two") != {}
