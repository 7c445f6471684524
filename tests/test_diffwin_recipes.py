"""The recipes of Tables 5 and 6 of Nguyen et al. 2020, from raw corpus to row: made samples, tiny models."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from recipes import write
from test_labelled_prep import agreement, write_table
from test_quickstart import rows_of
from test_recipes import call

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import compare  # noqa: E402

CLASSIFIER = "transformer_diffwin_classifier_tiny"
LANGUAGE_MODEL = "transformer_lm_diffwin_tiny"
# What a machine without a GPU, and a test, must have otherwise; all else is the recipe's.
SMALL = """\
hardware: cpu
seeds: [1]
threads: 1
train:
  cpu: true
  distributed_world_size: null
  num_workers: 0
  max_update: 4
  save_interval_updates: 2
  log_interval: 1
"""


def sentence(draw: random.Random) -> str:
    return " ".join(draw.choices("a film of words that are few".split(), k=draw.randint(2, 12)))


def make_imdb(folder: Path) -> str:
    """Reviews in the layout of aclImdb; one is longer than the 512 tokens that the model reads."""
    draw = random.Random(1)
    for part in ("train", "test"):
        for kind, points in (("neg", 2), ("pos", 9)):
            where = folder / part / kind
            where.mkdir(parents=True)
            for number in range(8):
                text = sentence(draw) * (100 if number == 0 else 1)
                (where / f"{number}_{points}.txt").write_text(f"{text}<br />{kind}", "utf-8")
    return "--valid, 2, --min-count, 1"


def make_sva(folder: Path) -> str:
    write_table(folder / "agr_50_mostcommon_10K.tsv", [agreement(number) for number in range(200)])
    return "--min-count, 1"


def make_1bw(folder: Path) -> str:
    draw = random.Random(1)
    training, heldout = (folder / f"{name}-monolingual.tokenized.shuffled" for name in ("training", "heldout"))
    training.mkdir()
    heldout.mkdir()
    files = [training / f"news.en-{n:05d}-of-00100" for n in range(1, 100)]
    files += [heldout / f"news.en.heldout-{n:05d}-of-00050" for n in range(2)]
    for file in files:
        file.write_text("".join(sentence(draw) + "\n" for _ in range(3)), "utf-8")
    return "--words, 40"


CORPORA = {
    "imdb_diffwin": (make_imdb, CLASSIFIER, "mw", "encoder", ""),
    "sva_diffwin": (make_sva, CLASSIFIER, "mw", "encoder", ""),
    "lm_1bw_diffwin": (
        make_1bw,
        LANGUAGE_MODEL,
        "aw",
        "decoder",
        "  bf16: null\neval_lm: {cpu: true, num_workers: 0}\n",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_recipe_on_a_made_sample(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    make, arch, other, site, more = CORPORA[name]
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    options = make(corpus)
    parent = ROOT / "configs" / "compare" / f"{name}.yaml"
    prepare = compare.load_recipe(parent).get("data")["prepare"]
    system = f"diffwin_{other}"
    path = write(
        tmp_path,
        f"extends: {parent}\n"
        f"data: {{name: made, prepare: {prepare}, options: [{options}], local: {corpus}}}\n"
        f"architectures: [{arch}]\nsystems:\n  {system}: {{arch: {arch}, diffwin_{site}: {other}}}\n{SMALL}{more}",
        "made.yaml",
    )
    assert call(compare.main, monkeypatch, path, "--out", tmp_path / "out", "--results", tmp_path) == 0, (
        capfd.readouterr()
    )
    rows = {row["system"]: row for row in rows_of(tmp_path / "made.csv")}
    assert set(rows) == {arch, system, next(iter(rows.values()))["baseline"]}
    for row in rows.values():
        assert row["updates"] == "4"
        if arch == LANGUAGE_MODEL:
            held_out = next(corpus.glob("heldout*/*-00000-*")).read_text("utf-8")
            assert row["tokens"] == str(len(held_out.split()) + 3)  # and the ends of three sentences
            assert float(row["perplexity"]) > 1
        else:
            assert row["sentences"] == {"imdb_diffwin": "16", "sva_diffwin": "180"}[name]
