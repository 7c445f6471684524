"""A table from its file to its results: what is trained once, skipped, resumed, filled in; and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from itertools import product

import pytest

from experiments.data.preparation import Corpus
from experiments.engine import table
from support.tables.bench import CHECKPOINTS, TABLE_1, Bench

pytestmark = pytest.mark.usefixtures("fake_trainings")


def test_rows_are_measured_and_then_kept(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    assert bench.run("table1", "--seeds", "1,2") == 0
    lines = bench.lines("table1")
    found = bench.scores("table1", seed="2")
    assert float(found["mma"]["score"]) == 100 > float(found["plain"]["score"])
    gain = float(found["mma"]["score"]) - float(found["plain"]["score"])
    assert abs(float(found["mma"]["difference"]) - gain) <= 0.011
    assert float(found["mma"]["p_value"]) < 0.01 and found["plain"]["difference"] == ""
    assert (found["mma"]["baseline"], found["plain"]["baseline"]) == ("plain", "")
    assert {line["metric"] for line in lines} == {"tokenised_bleu", "sacrebleu"}  # no steps: the log has none
    assert found["mma"]["averaged"] == "last 2" and found["mma"]["batch_tokens"] == "1200"
    assert {line["seed"] for line in lines} == {"1", "2"} and bench.trainings() == 4
    before = (bench.results / "mma" / "table1.csv").read_bytes()
    text = capsys.readouterr().out
    last = r"^mma \(seed 2\): tokenised_bleu 100\.00 \(\+\d+\.\d\d over plain, p 0\.00\d+\)$"
    assert "4 of 4 runs to do" in text and re.search(last, text, re.MULTILINE)
    assert bench.run("table1", "--seeds", "1,2") == 0
    assert "0 of 4 runs to do" in capsys.readouterr().out
    assert bench.trainings() == 4 and (bench.results / "mma" / "table1.csv").read_bytes() == before


@pytest.mark.slow
def test_one_training_serves_all_tables(bench: Bench) -> None:
    assert bench.run("table2") == 0  # with its baseline, which is a row of another table
    found = bench.scores("table2")
    assert set(found) == {"all", "window"} and all(line["difference"] for line in found.values())
    assert {line["baseline"] for line in found.values()} == {"table1/plain"}
    assert bench.trainings() == 3
    assert bench.run("table1") == 0
    assert bench.trainings() == 3 and set(bench.scores("table1", "sacrebleu")) == {"plain", "mma"}


@pytest.mark.slow
def test_one_training_measured_in_several_ways(bench: Bench) -> None:
    """A row of another label, measure or test set shares the training; its lines are its own."""
    again = "  again: {same_as: mma, label: again, paper: {tokenised_bleu: 32.0}}\n"
    near = "  near: {same_as: mma, label: near, metric: locality, baseline: null, paper: {w1_layer1: 30.0}}\n"
    valid = "  valid: {same_as: mma, data: {tests: {valid: valid}}, label: x, baseline: null, paper: null}\n"
    bench.write("table1", TABLE_1 + again + near + valid)
    for part, language in product(("raw", "tok"), ("de", "en")):
        test = next(bench.out.glob(f"data/*/{part}/test.{language}"))
        test.with_stem("valid").write_text("".join(test.read_text().splitlines(keepends=True)[:7]))
    assert bench.run("table1") == 0
    assert bench.trainings() == 2
    near_lines = [line for line in bench.lines("table1") if line["row"] == "near"]
    assert [(line["metric"], line["score"], line["difference"]) for line in near_lines] == [
        ("w1_layer1", "70.50", ""),
        ("w1_layer2", "60.00", ""),
    ]
    folder = bench.folder("transformer_mma_tiny")
    stamps = {"generated.json", "generated.valid.json", "located.json"}
    assert stamps <= {path.name for path in folder.glob("*.json")}
    found = bench.scores("table1")
    assert set(found) == {"plain", "mma", "again", "valid"}
    assert found["valid"]["settings"] == found["again"]["settings"] == found["mma"]["settings"]
    assert found["valid"]["scoring"] != found["mma"]["scoring"]


def test_a_row_is_probed_again_with_other_trees(bench: Bench) -> None:
    """Its lines, and what was measured, are of the trees that the user gives; the training serves all."""
    own = "metric: probing, probing: pre-trained, baseline: null, paper: {voice: 70.0}"
    bench.write("table1", f"{TABLE_1}  probed: {{same_as: mma, label: x, {own}}}\n")
    trees = bench.root / "trees"
    trees.mkdir()
    bench.patch.setenv("PROBING_TREES", str(trees))
    scores = []
    for text in ("(S a)", "(S (NP a) b)", "(S a)"):
        (trees / "train.mrg").write_text(text)
        assert bench.run("table1", "--rows", "probed") == 0
        assert bench.run("table1", "--rows", "probed") == 0
        scores.append([line["score"] for line in bench.scores("table1", "voice").values()])
    assert scores == [["2.00"], ["4.00"], ["2.00"]] and bench.trainings() == 1


@pytest.mark.slow
def test_lines_of_other_tables_and_papers_are_adopted(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    """A training whose folder is gone is not done again where its lines stand in another table or paper."""
    assert bench.run("table1") == 0
    (bench.results / "mma" / "notes.csv").write_text("a,b\n1,2\n")  # no table's, as those of analyses
    for run in bench.out.glob("transformer_*"):
        shutil.rmtree(run)
    capsys.readouterr()
    assert bench.run("table2", "--dry-run", "--rows", "all") == 0  # says so, and writes nothing
    text = capsys.readouterr().out
    assert "# scored into" in text and "seed 1" not in text and "trainings" not in text
    assert not (bench.results / "mma" / "table2.csv").exists()
    assert bench.run("table2", "--rows", "all") == 0
    assert "1 runs are trainings of other rows too, whose numbers they take" in capsys.readouterr().out
    own, other = bench.scores("table2")["all"], bench.scores("table1")["mma"]
    assert own == {**other, "row": "all", "baseline": "table1/plain"}
    assert not list(bench.out.glob("transformer_*"))

    bench.write("../csan/table7", TABLE_1.replace("base/", "../mma/base/"))
    (bench.results / "mma").rename(bench.results / "csan")
    (bench.results / "csan" / "table1.csv").rename(bench.results / "csan" / "table7.csv")
    assert bench.run("table1") == 0
    assert set(bench.scores("table1")) == {"plain", "mma"} and not list(bench.out.glob("transformer_*"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rows:", "data: {lowercase: true}\nrows:"),  # scored in another way
        ("label: the same training", "train: {dropout: 0.1}, label: x"),  # another training
    ],
)
def test_lines_of_another_scoring_or_training_are_not_adopted(old: str, new: str, bench: Bench) -> None:
    assert bench.run("table1") == 0 and bench.trainings() == 2
    for run in bench.out.glob("transformer_mma*"):
        shutil.rmtree(run)
    path = bench.root / "configs" / "mma" / "table2.yaml"
    assert path.read_text().count(old) == 1
    bench.write("table2", path.read_text().replace(old, new))
    assert bench.run("table2", "--rows", "all") == 0
    assert bench.trainings() == 2  # plain's, and the new one


@pytest.mark.slow
def test_a_difference_is_filled_in_when_the_baseline_is_there(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    assert bench.run("table1", "--rows", "mma") == 0
    assert "plain is not trained: its difference is added when it is" in capsys.readouterr().out
    assert bench.scores("table1")["mma"]["difference"] == ""
    assert bench.run("table1", "--rows", "plain") == 0
    assert bench.run("table1") == 0
    assert float(bench.scores("table1")["mma"]["difference"]) > 0 and bench.trainings() == 2
    assert len(bench.lines("table1")) == 4  # in place, not beside


@pytest.mark.slow
def test_what_changes_the_score_alone_is_scored_again(bench: Bench) -> None:
    """Another baseline or case needs no new training, and the old lines go."""
    assert bench.run("table1") == 0
    before = bench.scores("table1")
    bench.write("table1", TABLE_1.replace("    label: MMA\n", "    label: MMA\n    baseline: null\n"))
    assert bench.run("table1") == 0
    assert before["mma"]["difference"] != "" == bench.scores("table1")["mma"]["difference"]
    bench.write("table1", TABLE_1.replace("    label: MMA\n", "    label: MMA\n    data: {lowercase: true}\n"))
    assert bench.run("table1") == 0
    (found,) = bench.scores("table1", "sacrebleu", row="mma").values()
    assert "case:lc" in found["signature"] and bench.scores("table1")["mma"]["difference"] != ""
    assert bench.trainings() == 2 and len(bench.lines("table1")) == 4
    bench.write("table1", TABLE_1.replace("transformer_mma_tiny", "transformer_csan_tiny"))
    assert bench.run("table1") == 0
    assert bench.scores("table1")["mma"]["architecture"] == "transformer_csan_tiny"
    assert bench.trainings() == 3


@pytest.mark.slow
def test_a_note_outlives_another_scoring(bench: Bench) -> None:
    """With the speeds that the noted lines have, and the machine of the training; another commit has no such note."""
    assert bench.run("table1") == 0
    stamp = bench.folder("transformer_mma_tiny") / "trained.json"
    facts = {"words_per_second": 9.0, "train_minutes": 3.0, "machine": {"hardware": "another", "torch": "1.0"}}
    stamp.write_text(json.dumps({**json.loads(stamp.read_text()), **facts}))
    path = bench.results / "mma" / "table1.csv"
    path.write_text("".join(f"{line[:-1]}other work\n" if ",mma," in line else line for line in path.open()))
    bench.write("table1", TABLE_1.replace("    label: MMA\n", "    label: MMA\n    baseline: null\n"))
    assert bench.run("table1") == 0
    columns = ("difference", "hardware", "torch", "note", "words_per_second", "train_minutes")
    noted = [bench.scores("table1")["mma"][name] for name in columns]
    assert noted == ["", "another", "1.0", "other work", "", ""]
    started = bench.folder("transformer_mma_tiny") / "started.json"
    started.write_text(json.dumps({"code": [{"commit": "another", "package": "x"}]}))
    assert bench.run("table1") == 0
    assert [bench.scores("table1")["mma"][name] for name in columns] == ["", "another", "1.0", "", "9.0", "3.0"]


@pytest.mark.slow
def test_a_failing_row_does_not_lose_the_others(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    """The status is 1, and mended the failed row alone is trained."""
    with bench.patch.context() as patch:
        bench.fail("localattn", patch=patch)
        assert bench.run("table1") == 1
    error = capsys.readouterr().err
    assert "table: failed: plain (seed 1): " in error and "out of memory" in error
    assert set(bench.scores("table1")) == {"mma"}
    assert bench.run("table1") == 0
    assert "1 of 2 runs to do" in capsys.readouterr().out and bench.trainings() == 2
    found = bench.scores("table1")
    assert set(found) == {"mma", "plain"} and found["mma"]["difference"]


def test_rows_without_data_fail_alone(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    """A corpus that cannot be prepared fails its rows, in one line that names the log."""
    data = "{name: other, prepare: data-prep/prepare_wmt14_en_de.sh, options: [--none, 9], source: de, target: en}"
    bench.write("table1", f"{TABLE_1}  other: {{label: x, architecture: transformer_mma_tiny, data: {data}}}\n")
    assert bench.run("table1", "--rows", "plain,other") == 1
    error = capsys.readouterr().err
    assert "table: failed: other: " in error and "--none" in error
    assert set(bench.scores("table1")) == {"plain"}


@pytest.mark.slow
def test_no_resume_keeps_the_old_aside(bench: Bench) -> None:
    """An unfinished training is put aside; a finished one is only measured again."""
    once = "once\n"
    assert bench.run("table1", "--rows", "mma") == 0
    folder = bench.folder("transformer_mma_tiny")
    for gone, aside in (("generated.json", False), ("*d.json", True)):
        for path in folder.glob(gone):
            path.unlink()
        (bench.results / "mma" / "table1.csv").unlink()
        assert bench.run("table1", "--rows", "mma", "--no-resume") == 0
        assert (folder / "trainings").read_text() == once
        old = folder.with_name(folder.name + ".aside1") / "trainings"
        assert (old.read_text() == once) if aside else not old.exists()


@pytest.mark.parametrize(("option", "kept"), [("--keep-checkpoints", CHECKPOINTS), ("--resume", CHECKPOINTS[2:])])
def test_checkpoints_that_were_averaged(option: str, kept: tuple[str, ...], bench: Bench) -> None:
    assert bench.run("table1", "--rows", "mma", option) == 0
    folder = bench.folder("transformer_mma_tiny")
    assert {path.name for path in (folder / "checkpoints").iterdir()} == set(kept)
    assert (folder / "averaged.pt").is_file()


@pytest.mark.slow
def test_the_estimate_of_what_follows_the_preparation(bench: Bench) -> None:
    """It counts ten minutes a training and its decoding, for the unfinished runs of all seeds, side by side."""
    found: list[float] = []
    bench.patch.setattr(Corpus, "prepare", lambda of, progress, after: found.append(after))
    bench.patch.setattr(table, "cores", lambda: 2)
    assert bench.run("table1", "--scale", "small") == 0
    bench.write("table1", TABLE_1 + "  more: {same_as: mma, label: x, train: {dropout: 0.1}}\n")
    assert bench.run("table1", "--scale", "small") == 0
    assert found == [2 * 620.0, 620.0]


def test_a_folder_is_named_by_options_and_knows_its_data(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    """Other data are refused, and nothing is lost."""
    mma = ("table1", "--rows", "mma")
    assert bench.run(*mma) == 0
    folder = bench.folder("transformer_mma_tiny")
    (line, *_) = lines = bench.lines("table1")
    stamp = json.loads((folder / "started.json").read_text())
    assert stamp["settings"] == line["settings"] and line["settings"] not in folder.name
    next(bench.out.glob("data/*/bin/dict.de.txt")).write_text("other\n")
    capsys.readouterr()
    assert bench.run(*mma) == 1 and bench.lines("table1") == lines and bench.trainings() == 1
    (error,) = capsys.readouterr().err.splitlines()
    assert f"mma (seed 1): {folder}: was trained on other data" in error and "move this run's folder away" in error
    shutil.move(folder, bench.root)
    assert bench.run(*mma) == 0 and len({each["settings"] for each in bench.lines("table1")}) == 2
