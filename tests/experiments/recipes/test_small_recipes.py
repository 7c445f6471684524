"""The small scale of the papers' rows: the same models on two CPU cores, with real data of another corpus."""

from __future__ import annotations

import re

import pytest

from fairseq_localattn.models.architectures import baseline_of, localattn_architectures
from support.tables.rows import ROOT, ROWS, SMALL_ROWS, baseline_of_row, parsed, row, same, source_of, values


def test_every_row_has_a_small_form() -> None:
    """All rows of the papers' tables; beside them, at small scale alone, rows of no table of a paper."""
    assert set(ROWS) <= set(SMALL_ROWS)
    assert {name.partition("_")[0] for name in set(SMALL_ROWS) - set(ROWS)} == {"man/others", "diffwin/others"}


@pytest.mark.parametrize("name", SMALL_ROWS)
def test_fairseq_has_the_values_of_the_small_scale(name: str) -> None:
    """On the CPU, in the small size of the row's model, with flags that fairseq takes."""
    found = row(name, "small")
    assert (found.hardware, found.gpus, found.threads, dict(found.sizes)) == ("cpu", 1, 1, {})
    assert found.metric and found.seeds and (ROOT / found.corpus.prepare).is_file()
    if found.lead:
        return
    for section in ("train", *(each for each in ("generate", "eval_lm") if found.section(each))):
        args = parsed(name, section, "small")
        for key, value in values(found, section).items():
            assert same(value, getattr(args, key)), f"{section}: {key} is {getattr(args, key)!r}, not {value!r}"
    args = parsed(name, "train", "small")
    assert {getattr(args, f"{stack}_embed_dim", 128) for stack in ("encoder", "decoder")} == {128}
    layers = re.search(r"_(\d)_layers$", found.architecture)
    wanted = 2 if "classifier" in found.architecture else int(layers[1]) if layers else 3
    stack = "decoder" if "_lm_" in found.architecture else "encoder"
    assert getattr(args, f"{stack}_layers") == wanted
    assert re.search(r"_small(_\d_(layers|heads))?$|_classifier$", found.architecture)
    assert found.flag("train", "max_update") <= 6000 and found.flag("train", "keep_interval_updates") == 1


@pytest.mark.parametrize("name", [name for name in ROWS if row(name).architecture])
def test_the_small_form_is_of_the_same_model(name: str) -> None:
    """The model's own flags are those of the full scale, but for those that the row states for one scale."""
    variant = re.compile(r"(man|diffwin|csan|mma|mgsa)_\w+|criterion|task|tag_loss_weight")
    full, small = (
        {key: value for key, value in values(row(name, scale), "train").items() if variant.fullmatch(key)}
        for scale in ("full", "small")
    )
    source = source_of(name)
    stated = {key for scale in ("full", "small") for layer in source.own[scale] for key in layer.get("train", {})}
    assert {key for key in full | small if full.get(key) != small.get(key)} <= stated
    architectures = localattn_architectures()
    both = [architectures.get(row(name, scale).architecture, "transformer") for scale in ("full", "small")]
    assert both[0].removeprefix("transformer_localattn") == both[1].removeprefix("transformer_localattn")


@pytest.mark.parametrize("name", [name for name in SMALL_ROWS if baseline_of_row(name)])
def test_the_small_baseline_is_of_the_same_size(name: str) -> None:
    """Trained alike, on the same data; of one size, so that the architecture's plain Transformer it is."""
    found, baseline = row(name, "small"), row(baseline_of_row(name), "small")
    assert found.metric == baseline.metric and found.seeds == baseline.seeds
    assert found.corpus.prepare == baseline.corpus.prepare and found.corpus.source == baseline.corpus.source
    for key in ("max_update", "max_tokens", "batch_size", "lr", "dropout", "warmup_updates"):
        assert found.flag("train", key) == baseline.flag("train", key), key
    if not name.endswith("_no_positions") and found.architecture in localattn_architectures():
        assert baseline.architecture == baseline_of(found.architecture)
