"""Options of a table's command: launches on CPUs and GPUs, dry runs, and mistakes that end in one line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from experiments.engine import table
from experiments.recipes.tables import find_table
from support.tables.bench import TABLE_1, Bench

CPU, ALONE = (1, None, "fp32", False), (1, None, "fp32", True)  # speeds are those of one at a time


def show_machine(patch: pytest.MonkeyPatch, gpus: int) -> None:
    patch.setattr(table, "cores", lambda: 3)
    patch.setattr(table, "visible_gpus", lambda: ([f"g{n}" for n in range(gpus)], [(8, 0)] * gpus))


def launched(words: str, gpus: int, patch: pytest.MonkeyPatch) -> list[tuple[int, Any, str, bool]]:
    """Return the launches of a command on three cores and so many A100s: GPUs, their names, precision, alone."""
    show_machine(patch, gpus)
    args = table.make_parser().parse_args(words.split())
    args.scale = args.scale or "full"
    rows = table.rows_of(find_table(args.paper, args.table), args.scale, None)
    found = table.launches(args, [row.stated for row in rows])
    given = (gpus == 0, args.nodes, args.threads, args.max_tokens)
    assert all((each.cpu, each.nodes, each.threads, each.max_tokens) == given for each in found)
    return [(each.gpus, each.devices, each.precision, each.alone) for each in found]


@pytest.mark.parametrize(
    ("words", "gpus", "expected"),
    [
        ("comparisons mechanisms --scale small", 0, [CPU] * 3),
        ("comparisons mechanisms --scale small --jobs 2", 0, [CPU] * 2),
        ("comparisons mechanisms --scale small --jobs 1", 0, [ALONE]),
        ("comparisons mechanisms --scale small --threads 2", 0, [ALONE]),
        ("mma table1 --jobs 2", 4, [(2, ("g0", "g1"), "bf16", True), (2, ("g2", "g3"), "bf16", True)]),
        # A recipe with `jobs` has so many trainings on each GPU, one GPU a training.
        ("comparisons mechanisms", 1, [(1, ("g0",), "bf16", False)] * 7),
        ("comparisons mechanisms --jobs 4", 2, [(1, (f"g{n % 2}",), "bf16", False) for n in range(4)]),
        # Machines meet in one place, for one training at a time.
        ("comparisons mechanisms --nodes 2 --rendezvous a:1", 2, [(1, ("g0",), "bf16", True)]),
        ("comparisons hybrids --scale small --nodes 2 --rendezvous a:1", 0, [ALONE]),
    ],
)
def test_launches(words: str, gpus: int, expected: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert launched(words, gpus, monkeypatch) == expected


def test_a_training_takes_the_gpus_that_its_batch_fills(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    """1,200 tokens (2 GPUs x 300 x 2) fill one GPU of eight. --gpus is obeyed, and nothing is written."""
    show_machine(bench.patch, 8)
    where = ["mma", "table1", "--out", str(bench.out), "--results", str(bench.results), "--dry-run"]
    for options, started, batch in (
        ([], "fairseq_cli.train ", "--update-freq '[4]' --max-tokens 300"),
        (["--gpus", "8"], "g6,g7 .* --nproc-per-node 8 ", "--update-freq '[1]' --max-tokens 150"),
        (["--gpus", "1", "--max-tokens", "32768"], "fairseq_cli.train ", "--update-freq '[1]' --max-tokens 1200"),
    ):
        assert table.main([*where, *options]) == 0
        text = capsys.readouterr().out
        assert len(re.findall(started, text)) == text.count(batch) == 2
        assert text.count("CUDA_VISIBLE_DEVICES=g0 ") == (4 if "--gpus" in options and "8" in options else 6)
    assert not bench.out.exists() and not bench.results.exists()


def test_a_dry_run_estimates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """At full scale, of the GPU that is there and the batch as it is trained; on a CPU there is none."""
    show_machine(monkeypatch, 1)
    monkeypatch.setattr(table, "seen_gpu", lambda: "NVIDIA H200")
    found = []
    for options in ([], ["--gpus", "1", "--max-tokens", "32768"], ["--cpu"]):
        where = ["diffwin", "table1", "--rows", "en_de_all", "--out", str(tmp_path), "--dry-run"]
        assert table.main([*where, *options]) == 0
        pattern = r"200000 updates, in \S+; estimated: ([\d.]+) h on 1 H200, (\d+) GB of memory, 6\.2 GB of disk"
        found += re.findall(pattern, capsys.readouterr().out)
    (slow, little), (fast, much) = (map(float, numbers) for numbers in found)
    assert slow > 2 * fast and much > 3 * little


def test_a_dry_run_on_a_cpu_says_how_long_it_takes(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    bench.patch.setattr(table, "cores", lambda: 2)
    assert bench.run("table1", "--scale", "small", "--seeds", "1,2", "--dry-run") == 0
    text = capsys.readouterr().out
    assert re.search(r"^# plain \(seed 1\): .*; estimated: 10 min$", text, re.MULTILINE)
    assert "# 4 trainings, 2 at a time: about 21 min in all\n" in text
    assert text.count("CUDA_VISIBLE_DEVICES='' ") == 8  # fairseq would count GPUs all the same


def test_a_gpu_trains_what_the_recipes_train_on_a_cpu(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    """With the same settings, so that the lines stand beside those of a CPU."""
    bench.patch.setattr(table, "visible_gpus", lambda: (["0"], [(8, 0)]))
    where = ["mma", "table2", "--scale", "small", "--rows", "window", "--out", str(bench.out), "--dry-run"]
    runs = []
    for options in ([], ["--gpu", "--precision", "fp32"], ["--gpu"]):
        assert table.main([*where, *options]) == 0
        text = capsys.readouterr().out
        runs.append(re.findall(r"^# window .* in ([^;\s]+)", text, re.MULTILINE))
        assert ("--cpu" in text) == ("estimated" in text) == (not options)
        assert ("--bf16" in text) == (options == ["--gpu"])
    assert runs[0] == runs[1] == runs[2] != []


def test_dry_run_of_seeds_and_rows(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    """Chosen rows come without their baselines; all commands are alike but for seed and paths."""
    options = ("--scale", "small", "--rows", "window", "--seeds", "4,5", "--dry-run")
    assert bench.run("table2", *options) == 0
    trained = [line.split() for line in capsys.readouterr().out.splitlines() if "fairseq_cli.train" in line]
    assert [line[line.index("--seed") + 1] for line in trained] == ["4", "5"]
    assert all(line[line.index("--mma-window") + 1] == "2" for line in trained)
    one, other = trained
    differ = [before for before, a, b in zip(one, one[1:], other[1:], strict=False) if a != b]
    assert differ == ["--seed", "--save-dir", "--log-file"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("man", "the following arguments are required: TABLE; --help lists all options"),
        ("nopaper table1", "nopaper: no such paper; there are comparisons, csan, diffwin, man, mgsa, mma, quickstart"),
        ("man ../mma/table1", "man ../mma/table1: no such table"),
        ("man others --scale full", "others.yaml: has no rows at the scale full, only at small"),
        ("man table1 --rows iwslt14_transformr", "did you mean 'iwslt14_transformer'?"),
        ("man table1 --rows ,", "--rows ,: names no row; man table1 has iwslt14_transformer"),
        ("man table1 --seeds -1", "--seeds -1: a seed is from 0 to 2^32 - 1"),
        ("man table1 --seeds 1,1", "--seeds 1,1: a seed is given twice"),
        ("man table1 --seeds 1,2 --task -1", "--task -1: rows and seeds make "),
        ("man table1 --cpu --gpus 0", "--gpus 0: at least 1"),
        ("mma table1 --jobs 2 --gpus 3", "--gpus 3 --jobs 2: only 4 GPUs are visible"),
        ("comparisons mechanisms --jobs 29", "--gpus 1 --jobs 29: only 4 GPUs are visible"),
        ("comparisons mechanisms --jobs 1 --gpus 5", "--gpus 5 --jobs 1: only 4 GPUs are visible"),
        ("mma table1 --gpu --smoke", "--gpu: at the scale smoke trainings are on the CPU"),
        ("man table1 --cpu --precision bf16", "--precision bf16: on a CPU trainings are in fp32; leave it out"),
        ("comparisons mechanisms --scale small --jobs 4", "--jobs 4: with 1 thread(s) a run, 3 cores carry at most"),
        (
            "comparisons mechanisms --scale small --jobs 2 --gpus 2",
            "--jobs 2: with 2 thread(s) a run, 3 cores carry at",
        ),
        ("mma table1 --scale small --threads 5", "--threads 5: there are 3 cores"),
        ("mma table1 --threads 5", "--threads 5: trainings are on GPUs; leave it out"),
        ("man table1 --rendezvous a:1", "--rendezvous a:1: goes with --nodes"),
        ("man table1 --nodes 2 --rendezvous host:x", "--rendezvous host:x: goes with --nodes, as HOST:PORT"),
        ("man table1 --nodes 2 --rendezvous a:1 --jobs 2", "--jobs 2: with --nodes trainings follow each other"),
        ("man table4 --smoke --local x=/tmp", "--local x=/tmp: at the scale smoke corpora are made on the"),
        ("mma table2 --scale small --local /none/there", "--local /none/there: no such folder; give the folder that"),
        ("quickstart toy --local toy=/none", "--local /none: toy takes no folder"),
        ("man table1 --cpu --local /none", "--local /none: these rows have several corpora: give NAME=DIR"),
        ("man table1 --cpu --local x=/tmp", "--local x=/tmp: these rows have no corpus x: there are iwslt14, "),
    ],
)
def test_mistakes_end_in_one_line(words: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    show_machine(monkeypatch, 4)
    try:
        status = table.main(shlex.split(words))
    except SystemExit as stop:  # argparse's
        status = int(stop.code or 0)
    told = capsys.readouterr()
    assert status == 2 and told.out == ""
    assert told.err.startswith("table: error: ") and message in told.err and told.err.count("\n") == 1


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(table.RecipeError, match="no GPU is visible: --scale smoke tries the pipeline on a CPU, --cpu"):
        launched("mma table1", 0, monkeypatch)


def test_a_task_has_all_rows_of_its_training() -> None:
    rows = table.rows_of(find_table("csan", "fig2"), "full", None)
    found = [[row.name for row in table.trainings(rows, (1, 2), task)[0]] for task in range(24)]
    assert found.count(["1d_window_11", "2d_heads_1"]) == 2 and sum(map(len, found)) == 26
    with pytest.raises(table.RecipeError, match="--task 24: rows and seeds make 24 trainings: 0 to 23"):
        table.trainings(rows, (1, 2), 24)


def test_data_without_trees_are_prepared_before_those_with(tmp_path: Path) -> None:
    """Trees are added to the data of the plain rows: one folder for both."""
    args = table.make_parser().parse_args(["mgsa", "table3", "--scale", "small", "--cpu", "--out", str(tmp_path)])
    rows = table.rows_of(find_table("mgsa", "table3"), "small", None)
    corpora = table.plan_of(args, rows[::-1])[0].corpora
    assert ["--trees" in corpus.recipe.corpus.options for corpus in corpora] == [False, True]
    assert len({corpus.data.folder for corpus in corpora}) == 1


def test_the_scale_of_a_table_that_has_no_full_one(bench: Bench) -> None:
    assert table.default_scale(find_table("man", "others")) == "small"
    bench.write("table3", TABLE_1.replace("extends: base/full.yaml\nsmall: base/small.yaml\n", ""))
    with pytest.raises(
        table.RecipeError, match=r"table3\.yaml: nothing says on what it is trained: give it 'extends: "
    ):
        table.default_scale(bench.table("mma", "table3"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metric: bleu", "metric must be one of tokenised_bleu"),
        ("train: {mma_window: -1}", "the window of the local heads must be 1 or more, not -1"),
        ("train: {task: masked_lm}", "no measure for the task masked_lm"),
        ("baseline: table1/gone", "baseline table1/gone: .*table1.yaml has plain, mma"),
    ],
)
def test_a_wrong_row_is_named(text: str, message: str, bench: Bench, capfd: pytest.CaptureFixture) -> None:
    bench.write("table3", f"rows:\n  wrong: {{same_as: table1/mma, {text}}}\n")
    assert bench.run("table3", "--dry-run") == 2
    error = capfd.readouterr().err
    assert "table3.yaml:2: " in error and re.search(message, error) and error.count("\n") == 1, error
