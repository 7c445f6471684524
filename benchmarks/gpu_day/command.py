"""The command line of gpu_day.sh."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.recipes.recipe import ROOT
from experiments.runs.launch import Launch
from experiments.runs.schedule import run_all
from experiments.system.options import OneLineParser
from experiments.system.processes import lock
from experiments.system.progress import Progress

from .course import Step, waiting
from .machine import COMMIT, CourseError, make_ready, take_data
from .plan import SIZES, STAGES, of_stages, steps

FAILED, LEFT = 1, 3  # exit statuses: a step has failed; steps are left for a further call
DESCRIPTION = """\
Measure this package on one GPU: the contract suite on it in fp32, bf16 and fp16, the benchmarks against fairseq's own
Transformer, and trainings side by side, decoded and scored: a Transformer and six systems, graphs and none, and three
seeds of what "Which attention?" compares.

OUT/results has CSVs and pictures as results/ has them, OUT/gpu_day.md shows them with the goals, OUT/gpu_day.tar.gz has
all of it in one file. What is done is skipped by a second call, a training that was stopped continues, and what has
failed is tried again after the rest. Exit status: 0 all is done, 1 a step has failed, 2 refused, 3 steps are left.
"""


def make_parser() -> OneLineParser:
    """Return the parser of the command line."""
    form = argparse.RawDescriptionHelpFormatter
    parser = OneLineParser(prog="gpu_day", description=DESCRIPTION, formatter_class=form, allow_abbrev=False)
    add = parser.add_argument
    add("out", metavar="OUT", type=Path, nargs="?", help="folder of the results")
    add("--work", type=Path, help="folder of data, checkpoints and logs of the trainings (default: OUT/work)")
    add("--minutes", type=float, metavar="N", help="stop before so many minutes are over; a second call goes on")
    add("--stages", default=",".join(STAGES), help="comma-separated; also single steps (default: %(default)s)")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: with --size tiny, a rehearsal")
    add("--size", choices=tuple(SIZES), default="base", help="tiny: the whole course in minutes; trainings on the CPU")
    add("--from", dest="packed", type=Path, metavar="DIR", help="install what is missing from a folder of --pack")
    add("--list", action="store_true", help="print the steps, what is done of them, and their commands")
    add("--pack", type=Path, metavar="DIR", help="only make the folder for a machine without network, from here")
    add("--python", default="3.12", help="with --pack: version of that machine's Python (default: %(default)s)")
    add("--local", metavar="DIR", help="with --pack: folder with the trainings' corpus (default: the table's own)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    begun = time.monotonic()
    try:
        args = make_parser().parse_args(argv)
        work = (lambda: pack(args)) if args.pack else prepare(args, begun)
    except CourseError as error:
        print(f"gpu_day: error: {error}", file=sys.stderr)
        return 2
    from experiments.engine.table import as_status  # needs what has been installed by now

    return as_status("gpu_day", work)


def pack(args: argparse.Namespace) -> int:
    """Make the folder for a machine without network."""
    if args.out is not None:
        raise CourseError(f"--pack {args.pack} only makes that folder: leave out {args.out}")
    from .pack import make

    print(make(args.pack.resolve(), args.python, args.local, ROOT / "runs" / "full"))
    return 0


def prepare(args: argparse.Namespace, begun: float) -> Callable[[], int]:
    """Check the arguments and the machine, and return what carries out the course. Raises CourseError."""
    if args.out is None:
        raise CourseError("give the folder of the results, OUT; --help lists all options")
    if args.device == "cpu" and args.size != "tiny":
        raise CourseError("--device cpu: only with --size tiny: at full size it would take days")
    if args.minutes is not None and args.minutes <= 0:
        raise CourseError(f"--minutes {args.minutes:g}: more than 0")
    if args.packed is not None and not (args.packed / COMMIT).is_file():
        raise CourseError(f"--from {args.packed}: is no folder of --pack")
    out = args.out.resolve()
    work = (args.work or out / "work").resolve()
    chosen = of_stages(steps(args.device, args.size, out, work), args.stages)
    if args.list:
        return lambda: show(chosen)
    try:
        for folder in (out, work):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CourseError(f"{error.filename}: {error.strerror}: choose another folder") from None
    found = make_ready(args.packed, args.device, out / "steps" / "machine.log")
    if args.packed is not None:
        take_data(args.packed, work / "trainings")
        name_commit(args.packed)
    deadline = math.inf if args.minutes is None else begun + 60 * args.minutes
    return lambda: day([replace(step, deadline=deadline) for step in chosen], out, args.device, machine=found)


def show(chosen: Sequence[Step]) -> int:
    """Print the steps."""
    for step in chosen:
        print(f"# {step.state()}, some {step.minutes:g} min on an H200\npython {' '.join(step.argv)}")
    return 0


def name_commit(packed: Path) -> None:
    """Let results outside of git name the commit of the packed folder, if the package is still that one."""
    from experiments.system.checkout import package

    commit, of_package = (packed / COMMIT).read_text(encoding="utf-8").split()
    if of_package == package():
        os.environ.setdefault("LOCALATTN_COMMIT", commit)


def day(chosen: Sequence[Step], out: Path, device: str, *, machine: str) -> int:
    """Carry out the steps, and write the page; return the exit status."""
    from .page import write

    progress = Progress()
    with lock(out) as held:
        to_do = [replace(step, held=held) for step in waiting(chosen)]
        progress.say(f"{machine}; {len(to_do)} of {len(chosen)} steps to do")
        try:
            run_all(to_do, [Launch()], progress, finished=lambda step: progress.say(f"{step.name}: {step.state()}"))
        finally:
            progress.say(f"written: {', '.join(str(path) for path in write(chosen, out, device, machine=machine))}")
    failed = [step.name for step in chosen if "failed" in step.stamp()]
    left = [step.name for step in waiting(chosen) if step.name not in failed]
    for name in failed:
        print(f"gpu_day: failed: {name}: see {out / 'steps' / f'{name}.log'}", file=sys.stderr)
    if left:
        progress.say(f"left for the next call: {', '.join(left)}")
    return FAILED if failed else LEFT if left else 0
