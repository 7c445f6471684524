"""Tables on a cluster: a training on several nodes, and an array of trainings, with stubs of SLURM's commands."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from experiments.engine import table
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import find_table
from support.paths import ROOT
from support.tables.bench import Bench

# Starts the command once a node, all of them here, and ends with the worst status.
SRUN = """\
#!/bin/bash
[[ "$1 $2 $3 $4 $5 $6 $7" == "--nodes 2 --ntasks 2 --ntasks-per-node 1 --kill-on-bad-exit=1" ]] || exit 64
shift 7
"$@" & first=$!
"$@" & second=$!
wait $first; status=$?
wait $second && exit $status
"""


def stub(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_where_the_nodes_of_a_job_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the node where the table runs, which has one of srun's tasks, at a port of this job."""
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")
    monkeypatch.setenv("SLURM_JOB_ID", "4000123")
    recipes = [recipe_at(find_table("mma", "table2"), "mma", "small")]
    for options, expected in (([], (f"{platform.node()}:20123", True)), (["--rendezvous", "a:1"], ("a:1", False))):
        args = table.make_parser().parse_args(["mma", "table2", "--scale", "small", "--nodes", "2", *options])
        assert [(each.rendezvous, each.srun) for each in table.launches(args, recipes)] == [expected]
    args.nodes, args.rendezvous = 3, ""
    with pytest.raises(table.RecipeError, match="--nodes 3: this is no SLURM job of so many nodes"):
        table.launches(args, recipes)


@pytest.mark.slow
@pytest.mark.usefixtures("warm_children")
def test_two_nodes_train_as_one_process(bench: Bench, toy_corpus: Path, tmp_path: Path) -> None:
    """torchrun of both nodes meets by its own rendezvous; the same updates come out as of one process, to rounding."""
    bench.data(toy_corpus)
    stub(tmp_path / "bin", "srun", SRUN)
    bench.patch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    bench.patch.setenv("SLURM_JOB_NUM_NODES", "2")
    bench.patch.setenv("SLURM_JOB_ID", str(os.getpid()))
    assert bench.run("table1", "--rows", "mma", "--nodes", "2") == 0
    folder = bench.folder("transformer_mma_tiny")
    assert "training on 2 devices" in (folder / "train.log").read_text()
    assert (folder / "train.json.log").read_text().count('"wps"') == 4, "one process has written"
    (line,) = bench.scores("table1").values()
    assert (line["updates"], line["batch_tokens"], line["attention"] != "") == ("4", "1200", True)
    assert int(line["parameters"]) > 10_000
    two = torch.load(folder / "averaged.pt", weights_only=False)["model"]
    shutil.move(folder, bench.out / "two")
    (bench.results / "mma" / "table1.csv").unlink()
    assert bench.run("table1", "--rows", "mma") == 0
    one = torch.load(folder / "averaged.pt", weights_only=False)["model"]
    assert one.keys() == two.keys()
    torch.testing.assert_close(two, one, atol=2e-5, rtol=1e-3)  # an error names the parameter


@pytest.mark.usefixtures("fake_trainings")
def test_outside_slurm_the_command_of_the_others_is_said(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    assert bench.run("table1", "--rows", "mma", "--nodes", "2", "--rendezvous", "first:29500") == 0
    _, said = capsys.readouterr().out.split("] on each other machine, in this folder: ")
    assert f"' {bench.folder('transformer_mma_tiny')}\n" in said  # the end of the training's command


@pytest.mark.usefixtures("fake_trainings")
def test_an_array_trains_each_once(bench: Bench, capsys: pytest.CaptureFixture) -> None:
    """A task a row and seed; a last start of the whole table trains nothing, and adds the differences."""
    where = ("--scale", "small")
    for task in (3, 0, 2, 1):
        assert bench.run("table1", *where, "--task", task) == 0
    assert bench.trainings() == 4
    capsys.readouterr()
    assert bench.run("table1", *where) == 0
    assert bench.trainings() == 4 and "0 of 4 runs to do" in capsys.readouterr().out
    assert bench.run("table1", "--rows", "mma") == 0  # at full scale, with lines in the same file
    for seed in "12":
        found = bench.scores("table1", "sacrebleu", scale="small", seed=seed)
        assert {row: line["difference"] != "" for row, line in found.items()} == {"mma": True, "plain": False}
    assert (found["mma"]["averaged"], found["mma"]["batch_tokens"]) == ("", "300")
    assert set(bench.scores("table1")) == {"mma"}


def test_the_template(tmp_path: Path) -> None:
    """sbatch hands it the arguments of the table; a job that is warned of its end goes back into the queue."""
    python = stub(tmp_path / "venv" / "bin", "python", "#!/bin/bash\necho \"$@\"\ntrap 'echo saved; exit 130' TERM\n"
                  "[[ $* != *slow* ]] || { kill -USR1 $PPID; sleep 30 > /dev/null 2>&1 & wait $!; }\n")  # fmt: skip
    stub(tmp_path / "bin", "scontrol", '#!/bin/bash\necho "scontrol $*"\n')
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SLURM_")},
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "LOCALATTN_VENV": str(python.parents[1]),
        "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURM_SUBMIT_DIR": str(ROOT),
    }  # fmt: skip

    def submitted(command: str, status: int = 0, **variables: str) -> str:
        words, env = ["bash", str(ROOT / "scripts" / "slurm.sbatch"), *shlex.split(command)], environment | variables
        done = subprocess.run(words, env=env, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    assert submitted("man table1 --rows a") == "scripts/table.py man table1 --rows a\n"
    both = submitted("man table1", SLURM_JOB_NUM_NODES="2", SLURM_ARRAY_TASK_ID="3")
    assert both == "scripts/table.py man table1 --nodes 2 --task 3\n"
    assert submitted("man slow").splitlines()[1:] == ["saved", "scontrol requeue 7"]
    assert submitted("man table1 --no-resume", 2).startswith("slurm.sbatch: error: --no-resume: a job that is requeued")
