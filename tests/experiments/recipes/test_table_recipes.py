"""The rows of the five papers' tables: they are all there, with the papers' numbers, trained as their baselines are."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from experiments.measure.metrics import FAMILIES, METRICS
from experiments.recipes.recipe import Recipe, load_recipe
from fairseq_localattn.models.architectures import baseline_of, localattn_architectures
from support.paths import ROOT
from support.recipes import values
from support.tables import rows
from support.tables.rows import BASES, ROWS, SMALL_ROWS, TABLES, baseline_of_row, build, row, sizes_of, source_of

TRAINED = [name for name in ROWS if row(name).architecture]
MODELS = {(row(name).architecture, repr(sorted(row(name).sizes.items()))): name for name in TRAINED}
WITH_BASELINES = [
    (name, scale) for scale, names in (("full", ROWS), ("small", SMALL_ROWS)) for name in names if baseline_of_row(name)
]
# A model's own flags, in which it may differ from the plain Transformer.
OWN = re.compile(
    r"(man|diffwin|csan|mma|mgsa|relpos|localness|qanet)_\w+|(en|de)coder_normalize_before|task|criterion|tag_loss_weight"
)
PINNED = "abac9e0fe4c3e22f"  # of the numbers that are copied from the papers


def test_every_table_has_its_rows_at_both_scales() -> None:
    """Beside the papers' rows, at small scale alone, there are rows of no table of a paper."""
    assert set(ROWS) <= set(SMALL_ROWS)
    assert {name.partition("_")[0] for name in set(SMALL_ROWS) - set(ROWS)} == {"man/others", "diffwin/others"}


def test_every_base_is_extended_by_a_row() -> None:
    tops = {path for name in SMALL_ROWS for path in source_of(name).extends.values() if path is not None}
    used = {path for top in tops for path in rows.chain(top)}
    of_quickstart = {"toy_de_en", "toy_en_de_trees"}
    assert [path for path in BASES if path not in used and path.stem not in of_quickstart] == []
    for path in BASES:
        found = load_recipe(path)
        assert not found.architecture and not found.label and not found.paper, path


@pytest.mark.parametrize("table", sorted({name.partition("_")[0] for name in ROWS}))
def test_metrics_of_the_papers_numbers(table: str) -> None:
    for name in [name for name in ROWS if name.startswith(f"{table}_")]:
        found = row(name)
        assert found.metric in (*found.paper, *FAMILIES) or not found.paper
        assert (found.lead == 3) == (name == "man/table2_cnndm_lead3") == (not found.architecture)
        for metric, of_paper in found.beside.items():
            assert metric in METRICS and of_paper in found.paper, name


def test_the_papers_numbers_are_as_they_were_copied() -> None:
    """The rows, their numbers, and what the papers quote of others: two copies from the papers agreed on them."""
    stated = {name: dict(row(name).paper) for name in ROWS}
    quoted = {name: [*table.quoted.items()] for name, table in TABLES.items() if table.quoted}
    text = json.dumps([stated, quoted], sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == PINNED, "compare the changed numbers with the papers"


@pytest.mark.parametrize("name", MODELS.values())
def test_the_model_has_the_sizes_that_are_stated(name: str) -> None:
    """Sizes, parameters and dictionaries, by which the full scale is estimated."""
    stated = dict(row(name).sizes)
    model = build(name)
    found = sizes_of(model)
    words, dictionary = found.pop("words"), stated.pop("dictionary")
    if not stated.get("decoder_layers", 1):
        assert not hasattr(model, "decoder") and stated.pop("decoder_layers") == 0
        words.setdefault("decoder", dictionary[1])
    assert found == stated
    ends = dictionary if isinstance(dictionary, list) else [dictionary] * 2
    assert words.get("encoder", ends[0]) == ends[0]
    assert {words.get(side, ends[1]) for side in ("decoder", "output")} == {ends[1]}
    shared = row(name).flag("train", "share_all_embeddings", False)
    assert not (shared and isinstance(dictionary, list)), "what is shared has one dictionary"


@pytest.mark.parametrize(("name", "scale"), WITH_BASELINES)
def test_the_baseline_is_trained_alike(name: str, scale: str) -> None:
    """Data, updates and flags of training are alike; only the model's own flags differ."""
    found, baseline = row(name, scale), row(baseline_of_row(name), scale)
    for key in ("metric", "gpus", "average", "checkpoint", "seeds"):
        assert getattr(found, key) == getattr(baseline, key), key

    def training(of: Recipe) -> dict[str, Any]:
        return {key: value for key, value in values(of, "train").items() if not OWN.fullmatch(key)}

    def data(of: Recipe) -> Any:
        options = tuple(option for option in of.corpus.options if option not in ("--trees", "en", "zh"))
        return replace(of.corpus, options=options, smoke=None)

    expected = training(baseline)
    if (name, scale) == ("man/table1_iwslt14_man_full", "full"):
        expected["warmup_updates"] = 8000
    assert training(found) == expected and values(found, "generate") == values(baseline, "generate")
    assert data(found) == data(baseline)
    arch, plain = found.architecture, baseline.architecture
    if not name.endswith("_no_positions") and arch in localattn_architectures():
        assert plain == baseline_of(arch)


@pytest.mark.parametrize("name", TRAINED)
def test_the_small_form_is_of_the_same_model(name: str) -> None:
    """The model's own flags are those of the full scale, but for those that the row states for one scale."""
    full, small = (
        {key: value for key, value in values(row(name, scale), "train").items() if OWN.fullmatch(key)}
        for scale in ("full", "small")
    )
    stated = {key for of in source_of(name).own.values() for layer in of for key in layer.get("train", {})}
    assert {key for key in full | small if full.get(key) != small.get(key)} <= stated
    both = [localattn_architectures().get(row(name, scale).architecture, "transformer") for scale in ("full", "small")]
    assert both[0].removeprefix("transformer_localattn") == both[1].removeprefix("transformer_localattn")
    found = row(name, "small")
    assert (found.hardware, found.gpus, found.threads, dict(found.sizes)) == ("cpu", 1, 1, {})


@pytest.mark.parametrize("name", ROWS)
def test_checkpoints_and_data_of_a_row(name: str) -> None:
    """Averages have their checkpoints, the last update's among them; what reads trees has them; the runner's flags."""
    found, data = row(name), row(name).corpus
    if found.architecture:
        interval, updates = found.flag("train", "save_interval_updates"), found.flag("train", "max_update")
        assert updates % interval == 0 and found.flag("train", "no_epoch_checkpoints") is True
        if found.average:
            kept = found.flag("train", "keep_interval_updates")
            assert found.checkpoint == "last" and found.average["last"] == kept and kept * interval <= updates
            assert not found.flag("train", "max_epoch"), "the last update is not known before"
    machine = {"fp16", "bf16", "cpu", "amp", "seed", "ddp_backend", "distributed_world_size", "num_workers"}
    assert not machine & {*found.train, *found.generate, *found.eval_lm} and found.hardware == "gpu"
    assert (ROOT / data.prepare).is_file(), data.prepare
    needs = found.flag("train", "task") == "translation_with_phrases"
    for options in (data.options, data.smoke or ()):
        assert ("--trees" in options) == needs
        assert not needs or options[options.index("--trees") + 1] == data.source
    assert bool(data.source) == bool(data.target) == bool(found.generate)


def test_figures_measure_models_of_the_tables() -> None:
    """One training under two names has one hash of settings, so that it is trained once."""
    pairs = {"fig2_transformer": "table1_transformer", "fig2_1d_window_11": "table1_1d", "fig2_2d_heads_3": "table1_2d"}
    for figure, table in pairs.items():
        one, other = row(f"csan/{figure}"), row(f"csan/{table}")
        assert one.architecture == other.architecture and values(one, "train") == values(other, "train")
