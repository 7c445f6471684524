"""Every mini corpus: the same bytes each time, and labels that follow from the text."""

from __future__ import annotations

import pytest

from corpora.mini import corpus
from corpora.mini import news as mini_news
from corpora.sources import imdb, sst, sva
from support.corpora.prep import SPLITS, run
from support.corpora.preparations import CASES

NAMES = sorted(corpus.known_corpora())


def test_every_mini_corpus_is_prepared_by_the_contract():
    others = {"sst2", "sst5", "tanaka_enja"}  # sst and aspec with other options
    assert {case.name for case in CASES.values()} | others == {*NAMES, "toy", "multi30k", "lm", "parallel"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_a_mini_corpus_is_the_same_each_time(tmp_path, name):
    found = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        assert run(corpus.main, name, folder).returncode == 0
        found.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert found[0] == found[1] and found[0]


@pytest.mark.parametrize("name", ["sst2", "sst5", "imdb", "sva"])
def test_labels_follow_from_the_text(tmp_path, name):
    """Each class is in each split, and texts that are equal have one label."""
    mini_news.CORPORA[name](tmp_path)
    if name == "imdb":
        examples = list(imdb.read(tmp_path, 30))
    elif name == "sva":
        examples = list(sva.read(tmp_path / "agr_50_mostcommon_10K.tsv", 1))
    else:
        examples = list(sst.read(tmp_path, int(name[-1]), phrases=False))
    classes = 5 if name == "sst5" else 2
    for split in SPLITS:
        labels = [label for found, _, label in examples if found == split]
        assert min(labels.count(label) / len(labels) for label in range(classes)) > 0.1
        assert best_guess([text for found, text, _ in examples if found == split], labels) == 1


def best_guess(texts: list[str], labels: list[int]) -> float:
    """Return how often the label follows from the text: for equal texts, the most frequent one is right."""
    seen: dict[str, list[int]] = {}
    for text, label in zip(texts, labels, strict=True):
        seen.setdefault(text, []).append(label)
    return sum(max(map(found.count, found)) for found in seen.values()) / len(texts)
