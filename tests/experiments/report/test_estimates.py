"""Estimates of hours, memory and disk: against speeds that others have published, and against the models themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from experiments.recipes.recipe import Recipe
from experiments.report import estimates
from experiments.runs.launch import Launch
from support.tables.rows import ROWS, build, row

BASE = "diffwin/table1_en_de_transformer"


def estimated(stated: Recipe, gpu: str, launch: Launch = Launch(), **sizes: Any) -> estimates.Estimate:  # noqa: B008
    found = estimates.estimate(launch.adapt(replace(stated, sizes={**stated.sizes, **sizes})), gpu)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("parameters", "tokens", "words_per_second"),
    [(210e6, 2560, 23_821), (210e6, 5120, 32_153), (61e6, 3600, 40_000)],
)
def test_published_speeds_on_a_v100(parameters: float, tokens: int, words_per_second: int) -> None:
    """fairseq's big Transformer by NVIDIA's DeepLearningExamples; the base one by fairseq's issue 940, "at least"."""
    update = row(BASE).with_flags("train", {"max_tokens": tokens, "update_freq": [1], "max_update": 1}, "here")
    hours = estimated(update, "V100", parameters=parameters).hours
    assert tokens / (3600 * hours) == pytest.approx(words_per_second, rel=1 / 3)


# Slower in Yang et al. 2019 than their arithmetic: a tensor of distances, blocks and convolutions in small operations.
SLOWER = ("csan/table1_rel_pos", "csan/table1_block", "csan/table1_cnns")


def test_the_papers_speeds_on_eight_p40() -> None:
    """Updates a second of Yang et al. 2019 and Hao et al. 2019, on 8 GPUs with 4,096 tokens each."""
    published = {name: row(name) for name in ROWS if name.startswith(("csan/table", "mgsa/table"))}
    rows = [each for name, each in published.items() if "steps_per_second" in each.paper and name not in SLOWER]
    for each in rows:
        speed = each.flag("train", "max_update") / (3600 * estimated(each, "P40", Launch(gpus=8)).hours)
        assert speed == pytest.approx(each.paper["steps_per_second"], rel=0.4), each.where
    assert len(rows) > 20


@pytest.mark.parametrize("name", ["csan/table1_2d", "diffwin/table5_sst_aw", "diffwin/table6_mw"])
def test_words_of_a_model(name: str) -> None:
    """The rows of its matrices of words, each counted once, are those of the model that is built."""
    model = build(name)
    found = [weights for key, weights in model.named_parameters() if "embed_tokens" in key or "output_proj" in key]
    words, _ = estimates.embeddings(row(name))
    assert words * row(name).sizes["embed_dim"] == sum(weights.numel() for weights in found)


def test_what_an_estimate_grows_with() -> None:
    recipe = row(BASE)
    plain = estimated(recipe, "V100")
    assert plain.disk == pytest.approx(12 * 60_915_712 * 7 / 1e9)  # five to average, the last and the best
    assert estimated(recipe, "A100").hours < plain.hours
    assert estimated(recipe, "V100", Launch(gpus=8)).hours == pytest.approx(plain.hours / 8)
    bigger = estimated(recipe, "V100", parameters=2 * 60_915_712)
    assert bigger.hours > plain.hours and bigger.memory > plain.memory and bigger.disk == 2 * plain.disk
    whole = estimated(recipe, "V100", Launch(max_tokens=32768))
    assert whole.hours < plain.hours and whole.memory > plain.memory and whole.disk == plain.disk


def test_rows_with_a_model_of_stated_sizes_have_an_estimate() -> None:
    """Neither first sentences nor classifiers of probing from scratch, nor small models, whose sizes are not stated."""
    for name in ROWS:
        trained = bool(row(name).architecture) and row(name).probing != "scratch"
        assert (estimates.estimate(row(name), "H200") is not None) == trained, name
    assert estimates.estimate(row("man/table4_dman", "small"), "V100") is None


def test_estimates_for_reading() -> None:
    assert [estimates.hours(value) for value in (0.001, 0.5, 1.25, 144.4)] == ["1 min", "30 min", "1.2 h", "144 h"]
    found = estimates.Estimate(2, 40.2, 1.26)
    assert (
        found.text(1, "V100") == "2.0 h on 1 V100, 40 GB of memory (a V100 has 32: lower --max-tokens), 1.3 GB of disk"
    )
    assert found.text(8, "H200") == "2.0 h on 8 H200, 40 GB of memory, 1.3 GB of disk"
    names = ("NVIDIA A100-SXM4-80GB", "NVIDIA H200", "RTX A1000", "Tesla T4", "")
    assert [estimates.kind_of(name) for name in names] == ["A100", "H200", "V100", "V100", "V100"]
