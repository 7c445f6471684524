"""Figures of the papers: what is drawn of scores and of weights, the command, and the pages."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from experiments.engine import table
from experiments.figures import command, scores, weights
from experiments.measure.csv_files import Line
from experiments.recipes.catalogue import FIGURES, find_figure
from experiments.recipes.nodes import RecipeError
from experiments.recipes.tables import find_table
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

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:'pin_memory' argument:UserWarning")  # fairseq's loader, without a GPU


def line(metric: str, score: float, seed: int, difference: float | None = None) -> Line:
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|sentences:" + ("9" if metric == "bleu_30_40" else "40")
    gap = "" if difference is None else str(difference)
    values = {"metric": metric, "score": str(score), "difference": gap, "seed": str(seed), "commit": "abc"}
    return Line("here", {**values, "signature": signature})


def system(key: str, *lines: Line) -> scores.System:
    """Return the row PAPER/TABLE/ROW of the repository, at small scale, with these lines."""
    paper, name, row = key.split("/")
    return scores.System(row, find_table(paper, name).recipe(row, "small"), lines)


def test_bleu_by_length() -> None:
    """A line a system, of the means; a group of too few sentences is left out; a seed is a dot."""
    bins = ("bleu_0_10", "bleu_10_20", "bleu_30_40", "bleu_50")
    rows = [
        system(
            f"mma/fig2/{row}", *(line(name, at + 10 * n + seed, seed) for n, name in enumerate(bins) for seed in (1, 2))
        )
        for row, at in (("transformer", 20), ("mma", 22))
    ]
    (axes,) = scores.draw("mma/fig2", rows).axes
    assert [list(drawn.get_ydata()) for drawn in axes.lines] == [[21.5, 31.5, 51.5], [23.5, 33.5, 53.5]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["Transformer", "Transformer MMA"]
    assert [tick.get_text().split("\n")[0] for tick in axes.get_xticklabels()] == ["(0, 10]", "(10, 20]", "> 50"]
    assert sorted(axes.collections[0].get_offsets()[:, 1]) == [21, 22, 31, 32, 51, 52]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Source length, words", "BLEU (sacreBLEU, 13a)")
    assert scores.note(rows) == f"{rows[0].recipe.description}; test set; seeds 1, 2; commit abc"


def test_bleu_by_window_and_heads() -> None:
    found = {"transformer": 30.0, "1d_window_11": 33.0, "1d_window_3": 31.0, "2d_heads_3": 34.0, "2d_heads_1": 33.0}
    rows = [system(f"csan/fig2/{row}", line("sacrebleu", score, 1)) for row, score in found.items()]
    left, right = scores.draw("csan/fig2", rows).axes
    assert [list(drawn.get_xdata()) for drawn in (left.lines[0], right.lines[0])] == [[3, 11], [1, 3]]
    assert [list(drawn.get_ydata()) for drawn in (left.lines[0], right.lines[0])] == [[31, 33], [33, 34]]
    assert set(left.lines[1].get_ydata()) == set(right.lines[1].get_ydata()) == {30.0}
    assert (left.get_xlabel(), right.get_xlabel()) == ("Window size", "Number of heads")
    assert scores.note(rows).endswith("; valid set; seed 1; commit abc")


def test_gaps_by_order_of_the_ngrams() -> None:
    plain = system("csan/fig3/transformer", *(line(f"bleu_ngram_{n}", 50, 1) for n in range(1, 9)))
    rows = [
        system(
            f"csan/fig3/{row}",
            *(line(f"bleu_ngram_{n}", 50, seed, n * at + seed) for n in range(1, 9) for seed in (1, 2)),
        )
        for row, at in (("1d", 0.1), ("2d", -1.0))
    ]
    (axes,) = scores.draw("csan/fig3", [plain, *rows]).axes
    for bars, at in zip(axes.containers, (0.1, -1.0), strict=True):
        assert [bar.get_height() for bar in bars] == pytest.approx([n * at + 1.5 for n in range(1, 9)])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["1D-CSANs", "2D-CSANs"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("N-gram", "Gap of BLEU")
    with pytest.raises(scores.ScoreError, match="no row has a difference to its baseline yet"):
        scores.draw("csan/fig3", [plain])


def arguments(bench: Bench, name: str) -> list[str]:
    return ["mma", name, "--cpu", "--out", str(bench.out), "--results", str(bench.results)]


def run(bench: Bench, name: str, *options: object) -> int:
    return command.main([*arguments(bench, name), *map(str, options)])


@pytest.mark.usefixtures("fake_trainings")
@pytest.mark.slow
def test_a_figure_of_scores(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """The runs of a table are scored and drawn, not trained again; a dry run draws nothing."""
    bench.write("fig2", BY_LENGTH)
    picture = bench.results / "figures" / "mma_fig2_small.png"
    assert run(bench, "fig2", "--scale", "small", "--dry-run") == 0 and not picture.exists()
    assert bench.run("table1", "--scale", "small") == 0 and bench.trainings() == 4
    assert run(bench, "fig2", "--scale", "small") == 0
    assert f"drawn: {picture}" in capsys.readouterr().out and picture.stat().st_size > 5000
    assert bench.trainings() == 4
    found = bench.scores("fig2", "bleu_0_10", scale="small", seed="2")
    assert float(found["mma"]["difference"]) > 0 and found["mma"]["signature"].endswith("sentences:12")
    other = bench.results / "other.pdf"
    assert run(bench, "fig2", "--scale", "small", "--plot", other) == 0 and other.stat().st_size > 5000
    _, ledger = table.run_table(table.make_parser().parse_args([*arguments(bench, "fig2"), "--scale", "small"]))
    seeds = {each.name: len(each.values("bleu_0_10")) for each in scores.systems_of(ledger)}
    assert seeds == {"plain": 2, "mma": 2}
    path = bench.results / "mma" / "fig2.csv"
    path.write_text(path.read_text().splitlines(keepends=True)[0])
    with pytest.raises(scores.ScoreError, match="fig2.csv: has no line of these rows at the scale"):
        scores.systems_of(ledger)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("mma fig9", "mma fig9: no such figure; there are mma fig2, "),
        ("mma fig2 --sentence 3 --scale small", "--sentence 3 changes nothing: mma fig2 draws scores"),
        ("mma fig2 --scale small --plot picture.xyz", "--plot picture.xyz: the name must end in one of"),
        ("mma fig3 --scale small --rows mma", "--rows mma: mma fig3 draws table2/mma"),
        ("diffwin fig3 --scale small", "no such checkpoint; train it with scripts/diffwin/table1.sh --scale small"),
    ],
)
def test_mistakes_end_in_one_line(words: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([*words.split(), "--out", str(tmp_path), "--results", str(tmp_path / "results")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("figure: error: ") and message in told and told.count("\n") == 1


def test_rows_of_weights_are_there_at_each_scale() -> None:
    for figure in FIGURES:
        assert find_figure(figure.paper, figure.name) is figure
        for scale in ("smoke", "small", "full"):
            assert [row.key for row in weights.rows_of(figure, scale)] == [
                f"{figure.paper}/{key}" for key in figure.rows
            ]
    with pytest.raises(RecipeError, match=r"table2.yaml:\d+: the row mma has no scale tiny, only smoke, small, full$"):
        weights.rows_of(find_figure("mma", "fig3"), "tiny")


@pytest.mark.slow
@pytest.mark.usefixtures("warm_children")
def test_a_figure_of_weights(bench: Bench, toy_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has trained the models; the CSV says of which commit, seed, data and sentence each value is."""
    bench.write("table2", "small: base/small.yaml\nrows:\n  mma: {same_as: table1/mma}\n")
    bench.patch.setattr(weights, "find_table", bench.table)
    bench.data(toy_corpus)
    assert run(bench, "fig3", "--scale", "small") == 2
    assert "scripts/mma/table2.sh --scale small --rows mma" in capsys.readouterr().err
    assert bench.run("table2", "--scale", "small", "--seeds", "2") == 0
    sentences = [each.split() for each in (toy_corpus / "tok" / "test.de").read_text().splitlines()]
    chosen = next(n for n, words in enumerate(sentences) if len(words) in weights.LENGTHS)
    assert run(bench, "fig3", "--scale", "small", "--seeds", "2") == 0, capsys.readouterr()
    path = bench.results / "figures" / "mma_fig3_small.csv"
    assert path.with_suffix(".png").stat().st_size > 5000
    lines = list(csv.DictReader(path.read_text("utf-8").splitlines()))
    assert {(each["scale"], each["row"], each["seed"], each["split"], each["sentence"]) for each in lines} == {
        ("small", "mma/table2/mma", "2", "test", str(chosen))
    }
    assert all(each["commit"] and each["architecture"] == "transformer_mma_tiny" for each in lines)
    assert {each["head"] for each in lines} == {"global", "local", "forward", "backward"}
    assert run(bench, "fig3", "--scale", "small", "--seeds", "2", "--sentence", "99") == 2
    assert "figure: error: --sentence 99: test has the sentences 0 to 11" in capsys.readouterr().err
