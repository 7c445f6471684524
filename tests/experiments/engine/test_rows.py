"""What a row becomes in a smoke run, how it is measured, and trainings on two machines."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.engine import plan as row_plan
from experiments.engine import rows, smoke
from experiments.measure import row_measures
from experiments.measure.scoring import Measurement
from experiments.recipes import recipe
from experiments.report.results import Table
from experiments.runs import launch, probe
from experiments.runs import machines as row_nodes
from experiments.runs import processes as jobs
from experiments.runs import run as runs
from experiments.runs.progress import Progress
from support.paths import ROOT
from support.recipes import BASE, write
from tests.experiments.engine.test_table import Bench, bench, prepared  # noqa: F401  fixtures

# --- smoke


def test_a_smoke_run_differs_in_what_smoke_yaml_says() -> None:
    (whole,) = rows.load_rows("diffwin", "table1", ["en_de_all"]).values()
    small, settings = smoke.small(whole), recipe.load_recipe(smoke.SETTINGS)
    for key, entry in small.sections["train"].items():
        expected = settings.sections["train"].get(key) or whole.sections["train"][key]
        assert entry.value == expected.value, key
    assert set(whole.sections["train"]) <= set(small.sections["train"])
    assert "batch_size" not in small.sections["train"]  # max_tokens is its batch
    assert (small.get("architecture"), small.get("gpus")) == (whole.get("architecture"), 1)
    kept = settings.flag("train", "keep_interval_updates")
    assert whole.get("average") == {"last": 5} and small.get("average") == {"last": kept}
    written = settings.flag("train", "max_update") // settings.flag("train", "save_interval_updates")
    assert written >= kept


@pytest.mark.parametrize(
    ("architecture", "heads", "sides"),
    [
        ("transformer_man_iwslt_de_en", 4, ["encoder", "decoder"]),
        ("transformer_csan_wmt_en_de_big", 16, ["encoder", "decoder"]),
        ("transformer_man_summarization", 12, ["encoder", "decoder"]),
        ("transformer_lm_diffwin", 8, ["decoder"]),
        ("transformer_diffwin_classifier", 4, ["encoder"]),
    ],
)
def test_a_narrow_model_keeps_its_heads(architecture: str, heads: int, sides: list[str]) -> None:
    expected = []
    for side in sides:
        expected += [f"--{side}-embed-dim", str(8 * heads), f"--{side}-ffn-embed-dim", str(16 * heads)]
    assert smoke.narrow_flags(architecture) == expected


def test_trees_of_a_mini_corpus_come_between_two_preparations(tmp_path: Path) -> None:
    (whole,) = rows.load_rows("mgsa", "table3", ["syntactic"]).values()
    small = smoke.small(whole)
    data = runs.Prepared(tmp_path / "data", "en", "de")
    corpus, without, trees = smoke.mini_commands(small, data, tmp_path / "mini")
    assert corpus[-2:] == ["wmt14_en_de", str(tmp_path / "mini")]
    assert "--trees" not in without and "--tree-files" not in without and without[2] == str(data.folder)
    assert trees[2:] == [str(data.folder / "tok"), "en", f"{data.folder}.trees"]


def test_mini_trees_have_the_words_of_their_lines(tmp_path: Path) -> None:
    lines = ["A dog runs in ( the ) park .", "Yes", "Two words"]
    (tmp_path / "test.en").write_text("".join(line + "\n" for line in lines))
    script = ROOT / "data-prep" / "mini_trees.py"
    subprocess.run([sys.executable, script, tmp_path, "en", tmp_path / "trees"], check=True)
    trees = (tmp_path / "trees" / "test.en.tree").read_text().splitlines()
    for line, tree in zip(lines, trees, strict=True):
        leaves = [word.rstrip(")") for word in tree.split() if not word.startswith("(")]
        assert leaves == line.replace("(", "-LRB-").replace(")", "-RRB-").split()
        assert tree.count("(") == tree.count(")")


# --- measures


def test_the_measure_follows_metric_and_task(tmp_path: Path) -> None:
    found = {}
    for name, text in {
        "bleu": "metric: tokenised_bleu\n",
        "rouge": "metric: rouge1\n",
        "lead": "metric: rouge1\nlead: 3\n",
        "length": "metric: bleu_by_length\n",
        "locality": "metric: locality\n",
        "probing": "metric: probing\nprobing: {training: scratch}\n",
    }.items():
        found[name] = type(row_measures.row_measure(recipe.load_recipe(write(tmp_path, text + BASE)))).__name__
    assert found == {
        "bleu": "RowTranslation", "rouge": "Summarization", "lead": "Lead", "length": "ByLength",
        "locality": "Locality", "probing": "Probing",
    }  # fmt: skip
    with pytest.raises(recipe.RecipeError, match="metric must be one of"):
        row_measures.row_measure(recipe.load_recipe(write(tmp_path, BASE)))


def test_the_mean_of_several_test_sets() -> None:
    found = [
        Measurement("MT03/multi_bleu", 40.0, "s", 1.0, 0.01),
        Measurement("MT04/multi_bleu", 42.0, "s", 2.0, 0.5),
        Measurement("MT03/sacrebleu", 39.0, "t"),
        Measurement("MT04/sacrebleu", 40.0, "t"),
    ]
    first, second = row_measures._means(found)
    assert first == Measurement("average/multi_bleu", 41.0, "s", 1.5)
    assert second == Measurement("average/sacrebleu", 39.5, "t")


def test_locality_is_that_of_mask_attention_where_there_is_some(tmp_path: Path) -> None:
    head = "window,layer,kind,share\n"
    (tmp_path / "locality.csv").write_text(head + "1,1,dman,70.5\n1,1,san,30\n2,6,dman,80.25\n")
    run = SimpleNamespace(folder=tmp_path)
    found = row_measures.Locality().measurements(run, None)
    assert [(m.metric, m.score) for m in found] == [("w1_layer1", 70.5), ("w2_layer6", 80.25)]
    (tmp_path / "locality.csv").write_text(head + "1,1,san,30\n")
    assert [m.score for m in row_measures.Locality().measurements(run, None)] == [30]
    (tmp_path / "locality.csv").write_text(head)
    with pytest.raises(row_measures.ScoreError, match=r"locality\.csv: has no rows"):
        row_measures.Locality().measurements(run, None)


def test_probing_has_its_mean(tmp_path: Path) -> None:
    (tmp_path / "probing.csv").write_text("task,accuracy\nvoice,70\ntense,80.5\n")
    found = row_measures.Probing().measurements(SimpleNamespace(folder=tmp_path), None)
    assert [(m.metric, m.score) for m in found] == [("voice", 70), ("tense", 80.5), ("probing_avg", 75.25)]


def test_probing_without_trees_says_where_they_go(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit, match=r"set \$PROBING_TREES to a folder with"):
        probe.tree_file(None, "train")
    with pytest.raises(SystemExit, match=r"no train\.mrg and no train\.mrg\.gz"):
        probe.tree_file(tmp_path, "train")
    (tmp_path / "train.mrg.gz").write_bytes(b"")
    assert probe.tree_file(tmp_path, "train") == tmp_path / "train.mrg.gz"


# --- settings


def test_settings_know_what_changes_a_result(tmp_path: Path) -> None:
    def settings(text: str) -> str:
        return runs.settings_hash(recipe.load_recipe(write(tmp_path, text)), "data")

    base = BASE + "gpus: 2\naverage: {last: 5}\n"
    changed = {
        base.replace("gpus: 2", "gpus: 4"),
        base.replace("last: 5", "last: 6"),
        base.replace("last: 5", "best: 5"),
        base.replace("train:\n", "train:\n  save_interval_updates: 7\n"),  # other checkpoints are averaged
        base + "probing: {training: scratch}\n",
        base.replace("beam: 5", "beam: 4"),
    }
    assert len({settings(base), *map(settings, changed)}) == 7
    same = (base + "label: x\npaper: {tokenised_bleu: 1}\nprobing: {training: pre-trained}\n", base + "seeds: [3]\n")
    assert {settings(text) for text in same} == {settings(base)}


# --- machines


def test_what_machine_0_announces(tmp_path: Path) -> None:
    def machine(rank: int, rendezvous: str = "a:1") -> row_nodes.Leader:
        return row_nodes.Leader(launch.Launch(nodes=2, node_rank=rank, rendezvous=rendezvous), tmp_path)

    machine(0).announce(tmp_path / "run")
    assert machine(1).said()["train"] == "run"
    assert machine(1, "b:1").said() == {}  # another table's, at the same time
    machine(1).announce(tmp_path / "other")
    machine(1).begin()
    assert machine(1).said()["train"] == "run"  # only machine 0 says
    machine(0).end()
    assert "end" in machine(1).said()
    machine(0).begin()
    assert machine(1).said() == {}
    alone = row_nodes.Leader(launch.Launch(), tmp_path / "alone")
    alone.announce(tmp_path)
    assert alone.said() == {} and not (tmp_path / "alone").exists()


@pytest.mark.parametrize("said", ["finished", "gone"])
def test_what_was_said_before_a_stop_is_not_obeyed(
    said: str,
    bench: Bench,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine that begins first may read what machine 0 said before it was stopped. Neither may wait."""
    bench.data()
    bench.fake()
    one = launch.Launch(cpu=True, nodes=2, node_rank=1, rendezvous="localhost:1")
    table = Table(bench.results / "t.csv", rows.COLUMNS, rows.KEY)
    plan = row_plan.make_plan(
        "mma", rows.load_rows("mma", "table1", ["mma"]), [1], one, bench.out, table, [], False, False
    )
    plan.make_runs()
    run = plan.runs[0]
    leader = row_nodes.Leader(launch.Launch(nodes=2, rendezvous="localhost:1"), bench.out / "mma")
    leader.announce(run.folder)
    started: list[str] = []
    if said == "finished":
        jobs.write_stamp(run.folder / "trained.json", {"updates": 4})
    else:
        sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
        monkeypatch.setattr(rows.RowRun, "train_argv", lambda run: started.append(run.label) or sleeps)
    before = leader.said()
    threading.Timer(2.0, leader.end).start()
    begin = time.monotonic()
    row_nodes._take_part(plan, before, Progress())
    assert started == ([] if said == "finished" else ["table1_mma (seed 1)"])
    assert time.monotonic() - begin < 30


@pytest.mark.slow
def test_two_machines(bench: Bench) -> None:  # noqa: F811
    """Two runners on one machine, each with one process, train together; the second ends with the first."""
    bench.data()
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r})\n"
        "import needs, pathlib, rows\n"
        f"rows.CONFIGS = pathlib.Path({str(bench.configs.parent)!r})\n"
        "import table\nsys.exit(table.main())"
    )
    same = ["mma", "table1", "--rows", "mma", "--cpu", "--out", bench.out, "--results", bench.results]
    same += ["--nodes", "2", "--rendezvous", f"localhost:{port}"]
    done: dict[int, subprocess.CompletedProcess[str]] = {}

    def start(rank: int) -> None:
        words = [sys.executable, "-c", program, *map(str, same), "--node-rank", str(rank)]
        done[rank] = subprocess.run(words, capture_output=True, text=True, timeout=400)

    threads = [threading.Thread(target=start, args=(rank,)) for rank in (1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [done[rank].returncode for rank in (0, 1)] == [0, 0], (done[0], done[1])
    assert "machine 0 is done" in done[1].stdout
    folder = next((bench.out / "mma").glob("transformer_mma_tiny.*"))
    assert "training on 2 devices" in (folder / "train.log").read_text()
    assert {line["batch_tokens"] for line in bench.lines("table1")} == {"1200"}
