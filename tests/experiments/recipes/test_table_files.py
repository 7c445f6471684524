"""Table files: rows, what they take from other rows and files, their scales and baselines; and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.recipes.recipe import RecipeError
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import Table, find_table, papers, tables_of
from support.recipes import values, write_table
from support.tables.files import SMALL, table_file

TABLE = """\
# Table 1 of Cui et al. 2019:
# heads.

# no part of the title
extends: base/full.yaml
small: base/small.yaml
baseline: plain
train: {label_smoothing: 0.1}
full: {train: {clip_norm: 0.5}}
rows:
  mma:
    label: MMA
    architecture: transformer_mma_iwslt_de_en
    train: {mma_window: 2}
    full: {train: {lr: [0.3], dropout: null}}
    small: {train: {dropout: 0.0}}
    paper: {tokenised_bleu: 31.5}
    sizes: {parameters: 7}
  plain: {label: Transformer, architecture: transformer_iwslt_de_en}
  wide: {same_as: mma, label: wide, baseline: mma, train: {mma_window: 5}, paper: {tokenised_bleu: null}}
  big: {label: big, architecture: transformer_wmt_en_de, extends: base/small.yaml, baseline: null}
"""


def read(root: Path, text: str, name: str = "table1") -> Table:
    """Return a table of the paper mma under a root, with what it extends."""
    table_file(root, text, f"mma/{name}")
    return find_table("mma", name, root / "configs")


def test_names_title_and_order(tmp_path: Path) -> None:
    found = read(tmp_path, TABLE)
    assert (found.paper, found.name, found.title) == ("mma", "table1", "Table 1 of Cui et al. 2019: heads.")
    assert found.rows("full") == ["plain", "big", "mma", "wide"], "baselines are first"
    assert found.baselines == {"mma": ("table1", "plain"), "plain": None, "wide": ("table1", "mma"), "big": None}
    assert found.baseline("wide") == (found, "mma") and found.baseline("plain") is None


def test_values_of_file_table_and_row(tmp_path: Path) -> None:
    """Each replaces those before it: file, table, row; then what stands under the scale, of the table and the row."""
    found = read(tmp_path, TABLE)
    full, small = found.recipe("mma", "full"), found.recipe("mma", "small")
    train = {"max_update": 9, "max_tokens": 100, "lr": [0.3], "label_smoothing": 0.1, "clip_norm": 0.5, "mma_window": 2}
    assert values(full, "train") == train and values(full, "generate") == {"beam": 4}
    train = {"max_update": 3, "max_tokens": 10, "lr": [0.2], "label_smoothing": 0.1, "mma_window": 2, "dropout": 0.0}
    assert values(small, "train") == train and values(small, "generate") == {"beam": 2}
    assert (full.metric, small.metric, full.seeds, small.seeds) == ("tokenised_bleu", "sacrebleu", (1, 2), (1,))
    assert (full.corpus.name, small.corpus.name) == ("none", "captions")
    assert full.train["lr"].where.endswith("table1.yaml:15") and full.train["max_update"].where.endswith("full.yaml:4")
    assert full.paper == small.paper == {"tokenised_bleu": 31.5}
    assert (full.sizes, small.sizes) == ({"parameters": 7}, {}), "sizes are those of the full scale"
    removed = read(tmp_path, TABLE.replace("{mma_window: 2}", "{mma_window: 2, dropout: null}"))
    with pytest.raises(RecipeError, match=r"table1.yaml:14: dropout has no value, and there is none to remove"):
        removed.recipe("mma", "small")


def test_sample_scale_has_what_small_scale_has_and_its_own(tmp_path: Path) -> None:
    write_table(tmp_path, "mma/base/sample", SMALL.replace("max_update: 3", "max_update: 5"))
    text = TABLE.replace("baseline: plain\n", "baseline: plain\nsample: base/sample.yaml\n", 1)
    found = read(tmp_path, text.replace("    paper:", "    sample: {train: {clip_norm: 2.0}}\n    paper:", 1))
    small, sample = recipe_at(found, "mma", "small"), recipe_at(found, "mma", "sample")
    own = {**values(small, "train"), "max_update": 5, "clip_norm": 2.0}
    assert values(sample, "train") == own and own["dropout"] == 0.0, "of the row's small scale"
    assert (small.architecture, sample.architecture) == ("transformer_mma_small", "transformer_mma_medium")
    assert not sample.sizes
    assert found.rows("sample") == found.rows("small")
    assert read(tmp_path, TABLE, "table2").rows("sample") == []


def test_same_as_takes_all_but_the_baseline(tmp_path: Path) -> None:
    found = read(tmp_path, TABLE)
    mma, wide = found.recipe("mma", "full"), found.recipe("wide", "full")
    assert values(wide, "train") == {**values(mma, "train"), "mma_window": 5}
    assert (wide.label, wide.architecture, wide.paper) == ("wide", mma.architecture, {})
    other = read(tmp_path, TABLE.replace("same_as: mma, label: wide, baseline: mma", "same_as: mma, label: wide"))
    assert other.baselines["wide"] == ("table1", "plain")


def test_same_as_a_row_of_another_table(tmp_path: Path) -> None:
    """It brings its files and values; the common values of this table stand on them, its baseline is this table's."""
    read(tmp_path, TABLE)
    text = "baseline: table1/plain\nmetric: bleu_by_length\nfull: {train: {clip_norm: 7}}\nrows:\n"
    found = read(tmp_path, text + "  again: {same_as: table1/mma, label: again, train: {lr: [0.9]}}\n", "table2")
    full, small = found.recipe("again", "full"), found.recipe("again", "small")
    # What table1/mma states for one scale alone stands above what the row here states for all.
    assert full.flag("train", "lr") == [0.3] and small.flag("train", "lr") == [0.9]
    assert (full.flag("train", "clip_norm"), full.flag("train", "mma_window")) == (7, 2)
    assert full.metric == small.metric == "bleu_by_length"
    baseline = found.baseline("again")
    assert baseline is not None and (baseline[0].name, baseline[1]) == ("table1", "plain")


def test_a_row_with_files_of_its_own(tmp_path: Path) -> None:
    found = read(tmp_path, TABLE)
    assert found.recipe("big", "full").corpus.name == "captions" and found.sources["big"].scales() == [
        "smoke", "small", "full",
    ]  # fmt: skip
    text = "rows:\n  x: {label: x, architecture: transformer_mma_tiny, small: {extends: base/small.yaml}}\n"
    only = read(tmp_path, text, "table3")
    assert only.rows("full") == only.rows("smoke") == [] and only.rows("small") == ["x"]
    with pytest.raises(RecipeError, match=r"table3.yaml:2: the row x has no scale full, only small"):
        recipe_at(only, "x", "full")


def test_papers_and_tables_in_order(tmp_path: Path) -> None:
    for name in ("table10", "table2", "fig2", "others", "base/x"):
        write_table(tmp_path, f"mma/{name}", TABLE)
    write_table(tmp_path, "scales/smoke", SMALL)
    write_table(tmp_path, "base/all", SMALL)
    assert papers(tmp_path / "configs") == ["mma"]
    assert tables_of("mma", tmp_path / "configs") == ["table2", "table10", "fig2", "others"]
    with pytest.raises(RecipeError, match="^man: no such paper; there are mma$"):
        find_table("man", "table2", tmp_path / "configs")
    with pytest.raises(RecipeError, match="^mma table3: no such table; mma has table2, table10, fig2, others$"):
        find_table("mma", "table3", tmp_path / "configs")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("baseline: plain", "baselines: plain", r":7: unknown key 'baselines'; did you mean 'baseline'"),
        ("small: {train: {dropout: 0.0}}", "small: {trian: {dropout: 0.0}}", r":16: unknown key 'trian'; did you"),
        ("  plain: {", "  Plain: {", r":19: Plain: the name of a row has lower-case letters, digits and '_'"),
        ("  plain: {", "  mma: {", r":19: mma was already given on line 11"),
        ("extends: base/full.yaml", "extends: base/ful.yaml", r":5: extends base/ful.yaml: there is no such file"),
        ("baseline: plain", "baseline: plan", r"baseline plan: there is no such row; did you mean 'plain'"),
        ("same_as: mma", "same_as: mna", r":20: same_as mna: no such row stands above; did you mean 'mma'"),
        ("same_as: mma", "same_as: table9/mma", r":20: same_as table9/mma: there is no .*table9.yaml"),
        ("rows:", "rows: 3\nseeds:", r":10: rows must be a mapping"),
        ("label: Transformer, ", "", r":19: .*the row plain needs the key 'label'"),
        (", architecture: transformer_iwslt_de_en}", "}", r":19: .*the row plain needs the key 'architecture'"),
        ("label: Transformer", "label: Transformer, train: {max_update: null, max_epoch: 3}", r":19: train needs max_"),
        ("label: Transformer", "label: Transformer, average: {last: 0}", r":19: average must be"),
    ],
)
def test_wrong_structure_of_a_table(old: str, new: str, message: str, tmp_path: Path) -> None:
    read(tmp_path, TABLE, "table2")
    assert TABLE.count(old) >= 1
    with pytest.raises(RecipeError, match=message) as caught:
        read(tmp_path, TABLE.replace(old, new, 1)).recipe("plain", "full")
    assert str(caught.value).startswith(str(tmp_path)) and "\n" not in str(caught.value)


def test_rows_that_begin_as_each_other(tmp_path: Path) -> None:
    """Two tables, or one that names itself, would be read for ever."""
    write_table(tmp_path, "mma/table2", "rows:\n  b: {same_as: table1/a}\n")
    message = r"table2.yaml:2: same_as table1/a: goes in a circle, from table1 to table2 to table1$"
    with pytest.raises(RecipeError, match=message):
        read(tmp_path, "rows:\n  a: {same_as: table2/b}\n")
    with pytest.raises(RecipeError, match=r"table1.yaml:3: same_as table1/a: goes in a circle, from table1 to table1$"):
        read(tmp_path, "rows:\n  a: {label: x}\n  b: {same_as: table1/a}\n")


def test_quoted_systems_are_numbers_without_a_recipe(tmp_path: Path) -> None:
    text = "extends: base/full.yaml\nrows:\n  a: {label: x}\nquoted:\n  Local (2018):\n    tokenised_bleu: 28.5\n"
    table = read(tmp_path, text)
    assert (table.rows("full"), table.quoted) == (["a"], {"Local (2018)": {"tokenised_bleu": 28.5}})
    with pytest.raises(RecipeError, match=r"table1.yaml: a table needs the key 'rows'"):
        read(tmp_path, "extends: base/full.yaml\n")
    with pytest.raises(RecipeError, match=r"table2.yaml:6: quoted: .* tokenised_bleu must be a number, not 'high'"):
        read(tmp_path, text.replace("28.5", "high"), "table2")


def test_the_small_size_of_an_architecture(tmp_path: Path) -> None:
    """A small size is of the same model; a row may state its own; fairseq's architectures have the plain one."""
    text = TABLE.replace("label: big, ", "label: big, small: {architecture: transformer_csan_small}, ")
    found = read(tmp_path, text)
    architectures = {row: recipe_at(found, row, "small").architecture for row in found.sources}
    assert architectures == {
        "mma": "transformer_mma_small",
        "wide": "transformer_mma_small",
        "plain": "transformer_localattn_small",
        "big": "transformer_csan_small",
    }
    assert recipe_at(found, "mma", "full").architecture == "transformer_mma_iwslt_de_en"
    wrong = read(tmp_path, TABLE.replace("transformer_iwslt_de_en}", "transformer_nosuch}"))
    with pytest.raises(RecipeError, match=r"table1.yaml:19: unknown architecture 'transformer_nosuch': choose from"):
        recipe_at(wrong, "plain", "small")
