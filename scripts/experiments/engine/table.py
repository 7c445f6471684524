"""Trains, decodes and scores the rows of one table of a paper.

    scripts/<paper>/<table>.sh [--rows a,b] [--seeds 1,2] [--gpus N] [--smoke] [--dry-run] [--resume | --no-resume] …

Each row is a file configs/<paper>/<table>_<row>.yaml; its numbers go to results/<paper>/<table>.csv as soon as they are
there. What is finished is skipped, and a training that was stopped continues. A row that fails does not stop the
others; it is reported at the end, and the exit status is 1. The effective batch is the paper's on any number of GPUs.
On several machines with a common file system, start the same command on each, with --nodes, --node-rank and
--rendezvous (scripts/slurm.sbatch does). --smoke runs the same pipeline for a few updates of narrow models on mini
corpora, on the CPU, apart from the results.
"""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import sys
from pathlib import Path

from experiments.engine.plan import Plan, make_plan, prepare_all, start_anew
from experiments.engine.rows import COLUMNS, KEY, load_rows
from experiments.measure.command import ScoreError
from experiments.recipes.recipe import ROOT, RecipeError
from experiments.report.results import Table
from experiments.runs.launch import PRECISIONS, Launch, best_precision
from experiments.runs.machines import follow
from experiments.runs.processes import Busy, JobFailed, stop_all, stop_on_signals
from experiments.runs.progress import Progress
from experiments.runs.schedule import run_all

PAPERS = ("man", "diffwin", "csan", "mma", "mgsa")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="table", description="Trains, decodes and scores the rows of a paper's table")
    parser.add_argument("paper", choices=PAPERS, metavar="PAPER", help=", ".join(PAPERS))
    parser.add_argument("table", help="table1, fig2, …")
    parser.add_argument("--rows", help="comma-separated; default: all, and the baselines that they need")
    parser.add_argument("--seeds", help="comma-separated; default: the recipes' (1)")
    parser.add_argument(
        "--gpus", type=int, help="of one training, on this machine (default: all); on a CPU processes (1)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="trainings side by side, each on --gpus GPUs (default: 1)")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="most tokens that a GPU holds, where it is smaller")
    parser.add_argument("--precision", choices=("auto", *PRECISIONS), default="auto", help="default: by the GPU")
    parser.add_argument("--nodes", type=int, default=1, help="machines of one training (default: 1)")
    parser.add_argument("--node-rank", type=int, help="number of this machine, from 0 (default: $SLURM_NODEID, or 0)")
    parser.add_argument("--rendezvous", default="", metavar="HOST:PORT", help="of machine 0, with --nodes")
    parser.add_argument("--local", action="append", default=[], metavar="[NAME=]DIR", help="folder with a corpus")
    parser.add_argument("--out", type=Path, help="data, models and logs (default: runs/tables; --smoke: runs/smoke)")
    parser.add_argument("--results", type=Path, help="folder of the CSVs (default: results; --smoke: under --out)")
    parser.add_argument("--smoke", action="store_true", help="a few updates of narrow models on mini corpora, CPU")
    parser.add_argument("--cpu", action="store_true", help="train on the CPU")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    help_resume = "continue trainings that were stopped (default); --no-resume: train them anew, the old is kept aside"
    parser.add_argument("--resume", action=argparse.BooleanOptionalAction, default=True, help=help_resume)
    args = parser.parse_args()
    if args.node_rank is None:
        args.node_rank = int(os.environ.get("SLURM_NODEID", "0")) if args.nodes > 1 else 0
    return args


def launches(args: argparse.Namespace) -> list[Launch]:
    """One for each training that may run side by side. Raises RecipeError where the machine cannot."""
    for name, least in (("gpus", 1), ("jobs", 1), ("nodes", 1), ("node_rank", 0), ("max_tokens", 1)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise RecipeError(f"--{name.replace('_', '-')} {value}: at least {least}")
    if args.nodes > 1 and (args.node_rank >= args.nodes or ":" not in args.rendezvous or args.jobs > 1):
        raise RecipeError("--nodes needs --rendezvous HOST:PORT, a --node-rank below it, and --jobs 1")
    same = {"nodes": args.nodes, "node_rank": args.node_rank, "rendezvous": args.rendezvous}
    same["max_tokens"] = args.max_tokens
    if args.smoke or args.cpu:
        return [Launch(gpus=args.gpus or 1, cpu=True, **same)] * args.jobs
    visible, capabilities = visible_gpus()
    if not visible and not args.dry_run:
        raise RecipeError("no GPU is visible: --smoke tries the pipeline on a CPU, --cpu trains on one, slowly")
    gpus = args.gpus or max(1, len(visible) // args.jobs)
    if visible and gpus * args.jobs > len(visible):
        raise RecipeError(f"--gpus {gpus} --jobs {args.jobs}: only {len(visible)} GPUs are visible")
    # The papers' GPUs are V100 and P40: where a dry run sees none, it shows what a V100 would be given.
    auto = best_precision(capabilities) if visible else "fp16"
    precision = auto if args.precision == "auto" else args.precision
    lanes = [tuple(visible[lane * gpus : (lane + 1) * gpus]) or None for lane in range(args.jobs)]
    return [Launch(gpus=gpus, precision=precision, devices=lane, **same) for lane in lanes]


def visible_gpus() -> tuple[list[str], list[tuple[int, int]]]:
    """Names, as CUDA_VISIBLE_DEVICES has them, and compute capabilities of the GPUs that this process may use."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return (names or [str(number) for number in range(count)])[:count], [
        torch.cuda.get_device_capability(number) for number in range(count)
    ]


def show_commands(plan: Plan) -> None:
    """What a run without --dry-run would start."""
    for corpus in plan.corpora:
        print(f"# data: {corpus.name}")
        for argv in corpus.commands():
            print(shlex.join(argv))
    for run in plan.to_do():
        print(f"# {', '.join(run.rows)} (seed {run.seed}): {run.plan().split(': ', 1)[1]}")
        for step in run.steps():
            before = [f"{name}={shlex.quote(value)}" for name, value in run.environment(step).items()]
            print(" ".join([*before, shlex.join(run.argv(step))]))
        print(f"# scored into {plan.table.path}")


def run_table(args: argparse.Namespace) -> int:
    chosen = args.rows.split(",") if args.rows else None
    rows = load_rows(args.paper, args.table, chosen)
    lanes = launches(args)
    out = (args.out or ROOT / "runs" / ("smoke" if args.smoke else "tables")).resolve()
    results = (args.results or (out / "results" if args.smoke else ROOT / "results")).resolve()
    table = Table(results / args.paper / f"{args.table}.csv", COLUMNS, KEY)
    seeds = _seeds(args.seeds)
    plan = make_plan(args.paper, rows, seeds, lanes[0], out, table, args.local, args.smoke, with_baselines=not chosen)
    if args.dry_run:
        plan.make_runs()
        show_commands(plan)
        return 0
    progress = Progress()
    if args.node_rank > 0:
        return follow(plan, progress)
    try:
        plan.leader.begin()
        return carry_out(plan, lanes, args.resume, progress)
    finally:
        plan.leader.end()


def carry_out(plan: Plan, lanes: list[Launch], resume: bool, progress: Progress) -> int:
    """Prepares, trains, measures and scores; returns the exit status."""
    prepare_all(plan, progress)
    plan.make_runs()
    if not resume:
        start_anew(plan.to_do(), progress)
    to_do = plan.to_do()
    progress.say(f"{len(to_do)} of {len(plan.runs)} runs to do; numbers go to {plan.table.path}")
    for note in [*plan.notes(), *(run.plan() for run in to_do)]:
        progress.say(note)
    run_all(
        to_do,
        len(lanes),
        progress,
        finished=lambda run: progress.say(plan.record(run)),
        failed=plan.failed,
        started=lambda run, lane: setattr(run, "launch", lanes[lane]),
    )
    plan.record_all()
    return plan.report(progress)


def _seeds(given: str | None) -> list[int] | None:
    try:
        seeds = [int(seed) for seed in given.split(",")] if given else None
    except ValueError:
        raise RecipeError(f"--seeds {given}: seeds are whole numbers, separated by commas") from None
    if seeds and len(set(seeds)) < len(seeds):
        raise RecipeError(f"--seeds {given}: a seed is given twice")
    return seeds


def main() -> int:
    args = parse_args()
    logging.disable(logging.INFO)  # of fairseq, in this process
    stop_on_signals()
    try:
        return run_table(args)
    except (RecipeError, Busy, ScoreError) as error:
        print(f"table: error: {error}", file=sys.stderr)
        return 2
    except (JobFailed, OSError) as error:
        print(f"table: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ntable: stopped; the same command continues from the last checkpoints", file=sys.stderr)
        return 130
    finally:
        stop_all()
