"""Train, decode and score the rows of one table of a paper.

    scripts/<paper>/<table>.sh [--scale smoke|small|sample|full] [--rows a,b] [--seeds 1,2] [--gpus N] [--dry-run] …
    python scripts/table.py PAPER TABLE …

A table is a file, configs/<paper>/<table>.yaml. Its numbers go to results/<paper>/<table>.csv as soon as they are
there. What is finished is skipped, and a training that was stopped continues. A row that fails does not stop the
others; it is reported at the end, and the exit status is 1.

full: the paper's data, models and batch, on any number of GPUs, in a SLURM job (scripts/slurm.sbatch) also of several
nodes. small: real data and small models on two CPU cores. sample: larger models on more data, for an hour or more.
smoke: a few updates of narrow models on mini corpora, on the CPU, apart from results.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from experiments.engine.carry_out import carry_out, show_commands
from experiments.engine.ledger import Ledger
from experiments.engine.plan import Choice, Plan, Row, folders, make_plan
from experiments.recipes.nodes import RecipeError, nearest
from experiments.recipes.recipe import Recipe
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import SCALES, Table, find_table
from experiments.report.estimates import kind_of
from experiments.runs.launch import PRECISIONS, Launch, best_precision
from experiments.system.checkout import ROOT
from experiments.system.options import OneLineParser
from experiments.system.processes import Busy, JobFailed, described, stop_all, stop_on_signals
from experiments.system.progress import Progress
from fairseq_localattn.errors import UsageError
from fairseq_localattn.parallel import cores


def make_parser(prog: str = "table", description: str | None = __doc__) -> OneLineParser:
    """Return the parser of a command that trains and measures the rows of a table."""
    parser = OneLineParser(prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("paper", metavar="PAPER", help="man, diffwin, csan, mma, mgsa; a folder of configs/")
    add("table", metavar="TABLE", help="table1, fig2, …")
    add("--scale", choices=SCALES, help="default: full, or else the first of small and sample that the table has")
    add("--smoke", dest="scale", action="store_const", const="smoke", help="--scale smoke")
    add("--rows", help="comma-separated; default: all, and the baselines that they need")
    add("--seeds", help="comma-separated; default: the recipes'")
    add("--gpus", type=int, help="GPUs of one training on this machine (default: as many as its batch fills); on a "
        "CPU processes (default: 1)")  # fmt: skip
    add("--jobs", type=int, help="trainings side by side (default: the recipe's jobs; on a CPU as many as it has "
        "cores for; --nodes: 1)")  # fmt: skip
    add("--threads", type=int, help="of one training on a CPU (default: the recipe's)")
    add("--max-tokens", type=int, metavar="N", help="most tokens that a GPU holds; the batch stays the paper's")
    add("--precision", choices=("auto", *PRECISIONS), default="auto", help="default: by the GPU")
    add("--task", type=int, metavar="N", help="only training N of the rows and seeds, from 0")
    add("--nodes", type=int, default=1, help="machines of one training, by srun in a SLURM job")
    add("--rendezvous", default="", metavar="HOST:PORT", help="with --nodes outside SLURM: a free port of this machine")
    add("--local", action="append", default=[], metavar="[NAME=]DIR", help="folder with a corpus")
    add("--out", type=Path, help="data, models and logs (default: runs/<scale>)")
    add("--results", type=Path, help="folder of the CSVs (default: results; smoke: under --out)")
    device = parser.add_mutually_exclusive_group()
    device.add_argument("--cpu", action="store_true", help="train on the CPU")
    device.add_argument("--gpu", action="store_true", help="train on a GPU what the recipes train on a CPU")
    add("--dry-run", action="store_true", help="print the commands only")
    add("--resume", action=argparse.BooleanOptionalAction, default=True, help="continue trainings that were stopped "
        "(default); --no-resume: train them anew, the old is kept aside")  # fmt: skip
    add("--keep-checkpoints", action="store_true", help="keep the checkpoints of which an average has been made")
    return parser


def launches(args: argparse.Namespace, recipes: list[Recipe]) -> list[Launch]:
    """Return one launch for each training that may run side by side. Raises RecipeError where the machine cannot."""
    for name in ("gpus", "jobs", "threads", "nodes", "max_tokens"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise RecipeError(f"--{name.replace('_', '-')} {value}: at least 1")
    rendezvous = meeting(args)
    if args.nodes > 1 and (args.jobs or 1) > 1:
        raise RecipeError(f"--jobs {args.jobs}: with --nodes trainings follow each other; leave it out")
    if args.gpu and args.scale == "smoke":
        raise RecipeError("--gpu: at the scale smoke trainings are on the CPU; leave it out")
    on_cpu = args.scale == "smoke" or args.cpu or not (args.gpu or any(r.hardware == "gpu" for r in recipes))

    one = Launch(
        nodes=args.nodes,
        rendezvous=rendezvous,
        srun=args.nodes > 1 and not args.rendezvous,
        cpu=on_cpu,
        max_tokens=args.max_tokens,
        threads=args.threads,
        fit=args.gpus is None and not on_cpu,
    )
    if on_cpu and args.precision not in ("auto", "fp32"):
        raise RecipeError(f"--precision {args.precision}: on a CPU trainings are in fp32; leave it out")
    if args.threads is not None and (not on_cpu or args.threads > cores()):
        why = f"there are {cores()} cores" if on_cpu else "trainings are on GPUs; leave it out"
        raise RecipeError(f"--threads {args.threads}: {why}")
    if on_cpu:
        jobs = 1 if args.nodes > 1 else _cpu_jobs(args, recipes)
        return [replace(one, gpus=args.gpus or 1, alone=jobs == 1)] * jobs
    visible, capabilities = visible_gpus()
    if not visible and not args.dry_run:
        raise RecipeError("no GPU is visible: --scale smoke tries the pipeline on a CPU, --cpu trains on one, slowly")
    shared = max(recipe.jobs for recipe in recipes)  # trainings that one GPU holds
    jobs = args.jobs or (1 if args.nodes > 1 else shared)  # machines meet for one training at a time
    gpus = args.gpus or (1 if shared > 1 else max(1, len(visible) // jobs))
    if visible and (gpus > len(visible) or gpus * jobs > len(visible) * shared):
        raise RecipeError(f"--gpus {gpus} --jobs {jobs}: only {len(visible)} GPUs are visible")
    # The papers' GPUs are V100 and P40: where a dry run sees none, it shows what a V100 would be given.
    auto = best_precision(capabilities) if visible else "fp16"
    precision = auto if args.precision == "auto" else args.precision
    one = replace(one, gpus=gpus, precision=precision, alone=jobs == 1 or gpus * jobs <= len(visible))
    if not visible:
        return [one] * jobs
    shares = [[visible[(lane * gpus + n) % len(visible)] for n in range(gpus)] for lane in range(jobs)]
    return [replace(one, devices=tuple(share)) for share in shares]


def meeting(args: argparse.Namespace) -> str:
    """Return HOST:PORT where the machines of one training meet; empty for one machine. Raises RecipeError."""
    if args.rendezvous and (args.nodes == 1 or not re.fullmatch(r".+:\d+", args.rendezvous)):
        raise RecipeError(
            f"--rendezvous {args.rendezvous}: goes with --nodes, as HOST:PORT, a free port of this machine"
        )
    if args.nodes == 1 or args.rendezvous:
        return args.rendezvous
    if int(os.environ.get("SLURM_JOB_NUM_NODES", "0")) < args.nodes:
        raise RecipeError(
            f"--nodes {args.nodes}: this is no SLURM job of so many nodes: submit scripts/slurm.sbatch, or give "
            "--rendezvous HOST:PORT, and start the command that is then printed on the other machines"
        )
    return f"{platform.node()}:{20000 + int(os.environ['SLURM_JOB_ID']) % 20000}"  # two jobs may share a node


def _cpu_jobs(args: argparse.Namespace, recipes: list[Recipe]) -> int:
    """Return how many trainings go side by side on a CPU. Raises RecipeError for more than it has cores for."""
    if any(recipe.hardware == "gpu" for recipe in recipes):
        return args.jobs or 1
    threads = (args.threads or max(recipe.threads for recipe in recipes)) * (args.gpus or 1)  # of all processes
    most = max(1, cores() // threads)
    if args.jobs is not None and args.jobs > most:
        raise RecipeError(f"--jobs {args.jobs}: with {threads} thread(s) a run, {cores()} cores carry at most {most}")
    return args.jobs or most


def visible_gpus() -> tuple[list[str], list[tuple[int, int]]]:
    """Return the names, as CUDA_VISIBLE_DEVICES has them, and the compute capabilities of the GPUs that may be used."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return (names or [str(number) for number in range(count)])[:count], [
        torch.cuda.get_device_capability(number) for number in range(count)
    ]


def seen_gpu() -> str:
    """Return the name of the first GPU; empty without one."""
    import torch

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""


def rows_of(table: Table, scale: str, chosen: str | None) -> list[Row]:
    """Return the rows of a table at a scale, or the comma-separated ones, baselines first. Raises RecipeError."""
    known = table.rows(scale)
    if not known:
        there = [each for each in SCALES if table.rows(each)]
        raise RecipeError(f"{table.path}: has no rows at the scale {scale}, only at {', '.join(there)}")
    names = known if chosen is None else [name for name in chosen.split(",") if name]
    if not names:
        raise RecipeError(f"--rows {chosen}: names no row; {table.paper} {table.name} has {', '.join(known)}")
    for name in names:
        if name not in known:
            raise RecipeError(f"--rows {name}: {table.paper} {table.name} has {', '.join(known)}{nearest(name, known)}")
    return [Row(table, name, recipe_at(table, name, scale)) for name in known if name in names]


def seeds_of(given: str | None) -> tuple[int, ...]:
    """Return the seeds of --seeds; none without it. Raises RecipeError."""
    try:
        seeds = tuple(int(seed) for seed in given.split(",")) if given else ()
    except ValueError:
        raise RecipeError(f"--seeds {given}: seeds are whole numbers, separated by commas") from None
    if any(not 0 <= seed < 2**32 for seed in seeds):
        raise RecipeError(f"--seeds {given}: a seed is from 0 to 2^32 - 1")
    if len(set(seeds)) < len(seeds):
        raise RecipeError(f"--seeds {given}: a seed is given twice")
    return seeds


def trainings(rows: list[Row], seeds: tuple[int, ...], task: int | None) -> tuple[list[Row], tuple[int, ...]]:
    """Return rows and seeds; with ``task`` the rows and the seed of that training. Raises RecipeError."""
    if task is None:
        return rows, seeds
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        for seed in row.seeds(seeds):
            found.setdefault((row.training, seed), []).append(row)
    if not 0 <= task < len(found):
        raise RecipeError(f"--task {task}: rows and seeds make {len(found)} trainings: 0 to {len(found) - 1}")
    (_, seed), of_training = list(found.items())[task]
    return of_training, (seed,)


def default_scale(table: Table) -> str:
    """Return full, or what a table has instead of it. Raises RecipeError for a table without a scale."""
    found = next((scale for scale in ("full", "small", "sample") if table.rows(scale)), None)
    if found is None:
        why = "nothing says on what it is trained: give it 'extends: FILE' for full scale, or 'small: FILE'"
        raise RecipeError(f"{table.path}: {why}, as in configs/quickstart/multi30k.yaml")
    return found


def plan_of(args: argparse.Namespace, rows: list[Row]) -> tuple[Plan, list[Launch]]:
    """Return what is to be done for rows, and a launch for each training that may run side by side."""
    if args.local and args.scale == "smoke":
        raise RecipeError(f"--local {args.local[0]}: at the scale smoke corpora are made on the spot; leave it out")
    rows, seeds = trainings(rows, seeds_of(args.seeds), args.task)
    lanes = launches(args, [row.stated for row in rows])
    out = (args.out or ROOT / "runs" / args.scale).resolve()
    results = (args.results or (out / "results" if args.scale == "smoke" else ROOT / "results")).resolve()
    choice = Choice(
        scale=args.scale,
        launch=lanes[0],
        out=out,
        results=results,
        seeds=seeds,
        local=folders(args.local, rows),
        with_baselines=not args.rows and args.task is None,
        keep_checkpoints=args.keep_checkpoints,
        jobs=len(lanes),
        gpu=kind_of(seen_gpu()),
    )
    return make_plan(rows, choice), lanes


def run_table(args: argparse.Namespace) -> tuple[int, Ledger]:
    """Train, decode and score the rows of a table; return the exit status and the ledger."""
    table = find_table(args.paper, args.table)
    args.scale = args.scale or default_scale(table)
    plan, lanes = plan_of(args, rows_of(table, args.scale, args.rows))
    ledger = Ledger(plan)
    if args.dry_run:
        show_commands(plan, [ledger.results(row).path for row in plan.rows])
        return 0, ledger
    ledger.check_results()
    return carry_out(plan, lanes, args.resume, Progress())


def as_status(name: str, work: Callable[[], int]) -> int:
    """Run a command of the engine; return its exit status, with one line on stderr for what the user can mend."""
    logging.disable(logging.INFO)  # of fairseq, in this process
    stop_on_signals()
    try:
        return work()
    except (UsageError, Busy) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return 2
    except (JobFailed, OSError) as error:
        print(f"{name}: error: {described(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{name}: stopped; the same command continues from the last checkpoints", file=sys.stderr)
        return 130
    finally:
        stop_all()


def main(argv: list[str] | None = None) -> int:
    args = make_parser().parse_args(argv)
    return as_status("table", lambda: run_table(args)[0])
