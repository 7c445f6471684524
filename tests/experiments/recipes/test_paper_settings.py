"""Batches, updates, learning rates, decoding and metrics of the five papers' rows, copied from papers and scripts."""

from __future__ import annotations

import re

import pytest

from experiments.measure.measures import METRICS
from support.tables.rows import ROWS, parsed, row, values


def batch_of(name: str) -> int:
    found = row(name)
    size = found.flag("train", "max_tokens") or found.flag("train", "batch_size")
    (freq,) = found.flag("train", "update_freq")
    return found.gpus * size * freq


@pytest.mark.parametrize(
    ("pattern", "batch", "updates", "lr", "warmup", "dropout", "beam", "lenpen"),
    [
        (r"man/table(1_iwslt14|[345]).*(?<!_full)", 16384, 80000, 7e-3, 16000, 0.3, 5, 1.0),
        (r"man/table1_iwslt14_man_full", 16384, 80000, 7e-3, 8000, 0.3, 5, 1.0),
        (r"man/table1_wmt14_base.*", 294912, 80000, 1e-2, 8000, 0.1, 4, 0.6),
        (r"man/table1_wmt14_big.*", 524288, 50000, 1.5e-2, 8000, 0.3, 4, 0.6),
        (r"man/table2_cnndm.*", 262144, 50000, 1e-3, 8000, 0.1, 5, 2.0),
        (r"man/table2_gigaword.*", 147456, 50000, 8e-4, 8000, 0.1, 5, 1.0),
        (r"diffwin/table(1_en_de|[234]).*", 32768, 200000, 7e-4, 4000, 0.1, 5, 0.6),
        (r"diffwin/table1_en_fr.*", 32768, 150000, 7e-4, 4000, 0.1, 5, 0.6),
        (r"diffwin/table5_sst.*", 32, 3000, 5e-4, 300, 0.5, None, None),
        (r"diffwin/table5_(imdb|sva).*", 32, 10000, 5e-4, 1000, 0.5, None, None),
        (r"diffwin/table6.*", 16384, 100000, 7e-4, 4000, 0.1, None, None),
        (r"(csan|mgsa)/(table[1235]|fig[23]|table4_base)(?!_big).*", 32768, 100000, 7e-4, 4000, 0.1, 4, 0.6),
        (r"(csan|mgsa)/table[24]_big.*", 32768, 300000, 5e-4, 4000, 0.3, 4, 0.6),
        (r"mma/(table[245]|fig2|table3_de_en).*", 4096, 100_000, 7e-4, 4000, 0.3, 5, 1.0),
        (r"mma/(table1|table3_ja_en).*", 4096, 1_000_000, 7e-4, 4000, 0.1, 5, 1.0),
    ],
)
def test_the_papers_settings(
    pattern: str,
    batch: int,
    updates: int,
    lr: float,
    warmup: int,
    dropout: float,
    beam: int | None,
    lenpen: float | None,
) -> None:
    names = [name for name in ROWS if re.fullmatch(pattern, name)]
    assert names
    for name in names:
        found = row(name)
        flags = [found.flag("train", key) for key in ("max_update", "lr", "warmup_updates", "dropout")]
        assert [batch_of(name), *flags] == [batch, updates, [lr], warmup, dropout], name
        assert [found.flag("generate", key) for key in ("beam", "lenpen")] == [beam, lenpen], name
        label_smoothing = None if "diffwin/table5" in pattern else 0.1
        assert found.flag("train", "label_smoothing") == label_smoothing
        assert found.flag("train", "adam_betas") == [0.9, 0.98]


def test_windows_have_their_authors_settings() -> None:
    """What the scripts of Nguyen et al. have beside the paper: checkpoints, compounds, language models in blocks."""
    translations = [name for name in ROWS if re.match("diffwin/table[1-4]", name)]
    for name in translations:
        french = "en_fr" in name
        assert row(name).flag("train", "save_interval_updates") == (10_000 if french else 5000), name
        assert row(name).beside == {"compound_bleu": "tokenised_bleu"}, name
    for name in ("diffwin/table6_transformer", "diffwin/table6_aw", "diffwin/table6_mw"):
        for section in ("train", "eval_lm"):
            args = parsed(name, section)
            assert (str(args.sample_break_mode), args.tokens_per_sample) == ("none", 512)
        assert parsed(name, "train").criterion == "label_smoothed_cross_entropy"
        assert not parsed(name, "train").share_decoder_input_output_embed
        small = values(row(name, "small"), "train")  # as it was measured
        assert (small["criterion"], small["sample_break_mode"]) == ("cross_entropy", "eos")
        assert small["share_decoder_input_output_embed"] is True


def test_metrics_beside_the_papers() -> None:
    """Each is a metric that rows of its data have, beside a number that the paper has."""
    for name in ROWS:
        for metric, of_paper in row(name).beside.items():
            assert metric in METRICS and of_paper in row(name).paper, name
            assert (metric, of_paper) in {("compound_bleu", "tokenised_bleu"), ("rougeL_swapped", "rougeL")}
    assert all(row(name).beside for name in ROWS if name.startswith("man/table2"))


def test_figures_measure_models_of_the_tables() -> None:
    """One training under two names has one hash of settings, so that it is trained once."""
    pairs = {"fig2_transformer": "table1_transformer", "fig2_1d_window_11": "table1_1d", "fig2_2d_heads_3": "table1_2d"}
    for figure, table in pairs.items():
        one, other = row(f"csan/{figure}"), row(f"csan/{table}")
        assert one.architecture == other.architecture
        assert values(one, "train") == values(other, "train")
