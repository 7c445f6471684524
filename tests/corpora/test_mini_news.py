"""Every mini corpus of news, reviews and agreement: the same each time, and what its preparation takes."""

from __future__ import annotations

import sys

import pytest

from corpora.mini import news as mini_news
from support.prep import DATA_PREP, SPLITS, call, lines_of, prepare

PREPARATIONS = {
    "cnndm": ["cnndm", "--no-checksums", "--train-vocab", "400"],
    "gigaword": ["gigaword", "--train-vocab", "200"],
    "sst": ["sst"],
    "sst2": ["sst", "--classes", "2"],
    "sst5": ["sst", "--classes", "5"],
    "imdb": ["imdb", "--valid", "30"],
    "sva": ["sva"],
    "1bw": ["1bw", "--words", "100"],
}


def test_every_mini_corpus_is_tried_and_is_the_same_each_time(tmp_path):
    assert set(PREPARATIONS) == set(mini_news.CORPORA)
    for name in mini_news.CORPORA:
        found = []
        for time_ in ("one", "two"):
            folder = tmp_path / name / time_
            done = call(sys.executable, DATA_PREP / "mini_corpus.py", name, folder)
            assert done.returncode == 0, done.stderr
            found.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
        assert found[0] == found[1] and found[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PREPARATIONS if name not in ("cnndm", "gigaword", "sst")])
def test_mini_corpus_goes_through_its_preparation(tmp_path, name):
    """Those of summaries are prepared in test_summarization_prep.py; sst is sst5 by another name."""
    (tmp_path / "in").mkdir()
    mini_news.CORPORA[name](tmp_path / "in")
    corpus, *options = PREPARATIONS[name]
    done = prepare(corpus, tmp_path / "out", "--local", tmp_path / "in", *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"ready: {tmp_path}/out/bin\n")
    raw = tmp_path / "out/raw"
    if name == "1bw":
        assert [len(lines_of(raw / f"{split}.en")) for split in SPLITS] == [396, 30, 30]
        return
    classes = 5 if name == "sst5" else 2
    for split in SPLITS:
        labels = lines_of(raw / f"{split}.label")
        shares = [labels.count(str(label)) / len(labels) for label in range(classes)]
        assert min(shares) > 0.1  # every class in every split
        assert best_guess(lines_of(raw / f"{split}.text"), labels) == 1


def best_guess(texts: list[str], labels: list[str]) -> float:
    """How often the label follows from the text: of equal texts, the most frequent one is right."""
    seen: dict[str, list[str]] = {}
    for text, label in zip(texts, labels, strict=True):
        seen.setdefault(text, []).append(label)
    return sum(max(map(found.count, found)) for found in seen.values()) / len(texts)
