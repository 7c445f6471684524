"""The command line of run.py."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from experiments.system.checkout import commit
from experiments.system.options import OneLineParser
from experiments.system.progress import Progress, clock
from fairseq_localattn.analysis.command import matplotlib
from fairseq_localattn.errors import UsageError
from fairseq_localattn.files import check_file, described
from fairseq_localattn.speed.memory import keep_freed_memory
from fairseq_localattn.speed.runtime import turn_off_cudnn

from .batches import LONGEST
from .generation import run_generation, run_inference
from .launches import run_launches, settings_of_count
from .modules import ATTENTIONS, run_modules, run_scaling
from .peers.ctranslate2 import NAME as CTRANSLATE2
from .report import LEGEND, Row, Run, as_text, draw_scaling, write_csv
from .settings import PARTS, PRECISIONS, SIZES, Settings, device_of, names_of, numbers_of
from .start import STARTS, run_start
from .steps import run_long, run_optimizer, run_steps, run_training
from .systems import DEFAULT_SYSTEMS, FUSED, PLAIN_FUSED, SYSTEMS, parse, systems_of
from .timing import PartProgress

ROOT = Path(__file__).resolve().parent.parent
RUN: dict[str, Callable[[Settings, PartProgress], list[Row]]] = {
    "module": run_modules,
    "step": run_steps,
    "long": run_long,
    "generation": run_generation,
    "inference": run_inference,
    "scaling": run_scaling,
    "start": run_start,
    "optimizer": run_optimizer,
    "launches": run_launches,
    "training": run_training,
}
LEAST_ROUNDS = 3
MEASURED = "systems size lengths tokens pairs words dropout flags optimizer graphs largest_scores".split()


def make_parser() -> OneLineParser:
    """Return the parser of the command line."""
    said = "Times this package's models against fairseq's own; see benchmarks/run.py"
    parser = OneLineParser(prog="run", description=said)
    add = parser.add_argument
    models, attentions, starts = (", ".join([*names][1:]) for names in (SYSTEMS, ATTENTIONS, STARTS))
    add("--parts", default=",".join(PARTS), help="comma-separated; default: all (%(default)s)")
    systems = f"comma-separated; default: the part's own. Models: {models}. Attentions: {attentions}. Starts: {starts}"
    systems += f". In inference: {CTRANSLATE2}"
    add("--systems", help=systems)
    add("--device", choices=("cpu", "cuda"), help="default: a GPU where there is one")
    add(
        "--precision",
        choices=PRECISIONS,
        default="fp32",
        help="bf16: autocast on a CPU, bf16 parameters for generation and on a GPU",
    )
    add("--size", choices=tuple(SIZES), default="base", help="of the models (default: %(default)s: d=512, 6+6 layers)")
    add("--rounds", type=int, default=7, help=f"that count, at least {LEAST_ROUNDS} (default: %(default)s)")
    add("--warm-up", type=int, default=2, help="rounds before them, at least 1 (default: %(default)s)")
    add("--tokens", type=int, default=4096, help="of a training batch, padding included (default: %(default)s)")
    add("--pairs", type=int, default=160_000, help="sentence pairs of the corpus that training batches are cut from "
        "(default: %(default)s, as many as IWSLT14 has)")  # fmt: skip
    add("--words", type=int, default=10152, help="symbols of the dictionary (default: %(default)s)")
    add("--dropout", type=float, default=0.1, help="fairseq's --dropout (default: %(default)s)")
    add("--lengths", help="tokens of a sentence in module, scaling and long, comma-separated; default: the part's own")
    add("--flags", default="", help="more flags of fairseq-train for this package's models, quoted as one")
    add("--optimizer", choices=("adam", FUSED), default="adam", help="of this package's models; part launches: "
        f"{FUSED} (default: %(default)s)")  # fmt: skip
    add("--graphs", default="", help="in the part training: values of --localattn-graphs, comma-separated, each timed "
        "(default: the package's)")  # fmt: skip
    add("--largest-scores", type=float, default=0.25, metavar="GIB", help="attentions that make heads×T×T fp32 numbers "
        "are left out where these are more GiB, and FLOPs are not counted there (default: %(default)s)")  # fmt: skip
    add("--threads", type=int, help="of the CPU (default: torch's choice)")
    add("--out", type=Path, help="folder (default: results/benchmarks; runs/benchmarks where other models, batches or "
        "flags are measured than by default)")  # fmt: skip
    return parser


def settings_of(args: argparse.Namespace, parts: Sequence[str]) -> Settings:
    """Check the arguments and return them as settings. Raises UsageError."""
    least = {"rounds": LEAST_ROUNDS, "warm_up": 1, "tokens": LONGEST, "pairs": 1, "words": 10, "largest_scores": 0}
    for name, bound in least.items():
        if getattr(args, name) < bound:
            raise UsageError(f"--{name.replace('_', '-')} {getattr(args, name)}: at least {bound}")
    if not 0 <= args.dropout < 1:
        raise UsageError(f"--dropout {args.dropout}: from 0 to less than 1")
    known = tuple(dict.fromkeys([name for part in parts for name in known_systems(part)]))
    try:
        flags = tuple(shlex.split(args.flags))
    except ValueError as error:
        raise UsageError(f"--flags {args.flags}: {error}") from None
    return Settings(
        device=device_of(args.device, args.precision),
        precision=args.precision,
        size=args.size,
        systems=names_of(args.systems, "--systems", known) if args.systems is not None else None,
        lengths=numbers_of(args.lengths, "--lengths") if args.lengths is not None else None,
        tokens=args.tokens,
        pairs=args.pairs,
        words=args.words,
        dropout=args.dropout,
        flags=flags,
        optimizer=args.optimizer,
        graphs=numbers_of(args.graphs, "--graphs", least=0) if args.graphs else (),
        rounds=args.rounds,
        warm_up=args.warm_up,
        largest_scores=int(args.largest_scores * 2**30),
    )


def other_options(args: argparse.Namespace) -> str:
    """Return the options that determine what is measured, as far as they are not the default ones."""
    standard = make_parser().parse_args([])
    names = [name for name in MEASURED if getattr(args, name) != getattr(standard, name)]
    return shlex.join([word for name in names for word in (f"--{name.replace('_', '-')}", str(getattr(args, name)))])


def known_systems(part: str) -> tuple[str, ...]:
    """Return the names of a part's systems, without the baseline."""
    if part == "start":
        return tuple(STARTS)[1:]
    if part == "optimizer":
        return (PLAIN_FUSED,)
    if part == "launches":
        return tuple(SYSTEMS)[1:] + tuple(ATTENTIONS)[1:]
    more = (CTRANSLATE2,) if part == "inference" else ()
    return tuple(SYSTEMS if part in DEFAULT_SYSTEMS else ATTENTIONS)[1:] + more


def run(args: argparse.Namespace) -> None:
    """Carry out the selected parts, one after another. Raises UsageError before the first one for mistakes."""
    parts = names_of(args.parts, "--parts", PARTS)
    settings = settings_of(args, parts)
    if args.threads is not None:
        if args.threads < 1:
            raise UsageError(f"--threads {args.threads}: at least 1")
        torch.set_num_threads(args.threads)
    if "scaling" in parts:
        matplotlib(".figure", "the part scaling, which --parts can leave out,")
    for part in [part for part in parts if part in DEFAULT_SYSTEMS]:
        for system in systems_of(settings, part):
            parse(system, settings)  # refuses wrong flags before the first part
    options = other_options(args)
    folder = args.out or ROOT / ("runs" if options else "results") / "benchmarks"
    for part in parts:
        for path in outputs(part, settings, folder):
            check_file(path)
    turn_off_cudnn()  # for fairseq's attention too, as models of this package do for the whole process
    allocator = keep_freed_memory()
    facts = Run(settings, torch.get_num_threads(), allocator, commit(), options=options)
    progress = Progress(stream=sys.stderr)
    print(facts.header(), LEGEND, sep="\n", flush=True)
    for part in [part for part in PARTS if part in parts]:
        if not settings.chosen(known_systems(part)):
            progress.say(f"{part}: left out: it has none of the systems {','.join(settings.systems or ())}")
            continue
        if part == "inference" and (settings.precision != "fp32" or settings.device.type != "cpu"):
            progress.say(f"{part}: left out: it measures fp32, bf16 and int8 by itself, on a CPU, without --precision")
            continue
        if part == "training" and settings.precision != "fp32" and settings.device.type == "cpu":
            progress.say(f"{part}: left out: on a CPU it measures fp32 alone")
            continue
        measure_part(part, facts, folder, progress)
    progress.say(f"finished in {clock(progress.elapsed())}")


def outputs(part: str, settings: Settings, out: Path) -> list[Path]:
    """Return the files of a part: its table, and of scaling the plot."""
    if part == "launches":
        settings = settings_of_count(settings)
    device = settings.device.type
    precision = "" if settings.precision == "fp32" else f"_{settings.precision}"
    plots = [out / f"scaling_{device}{precision}.png"] if part == "scaling" else []
    return [out / f"{part}_{device}_{settings.precision}.csv", *plots]


def measure_part(part: str, facts: Run, out: Path, progress: Progress) -> None:
    """Run a part, print its table and write its files."""
    settings = facts.settings if part != "launches" else settings_of_count(facts.settings)
    facts = replace(facts, settings=settings)
    rows = RUN[part](settings, PartProgress(part, progress))
    progress.close()
    written = outputs(part, settings, out)
    write_csv(written[0], part, rows, facts.facts())
    for plot in written[1:]:
        draw_scaling(rows, facts.header(), plot)
    print(f"\n{as_text(part, rows)}\n\nwritten: {', '.join(map(str, written))}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    logging.disable(logging.INFO)
    # A warning that fairseq causes.
    warnings.filterwarnings("ignore", message=r"\s*.config. is validated against ConfigStore")
    try:
        run(make_parser().parse_args(argv))
    except UsageError as error:
        print(f"run: error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"run: error: {described(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nrun: stopped; the parts that were finished are written", file=sys.stderr)
        return 130
    return 0
