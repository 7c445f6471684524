"""The quick start after its set-up; called by quickstart.sh, which see for the options."""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from experiments.data.preparation import data_of, local_folder, prepare, prepare_argv
from experiments.measure.command import ScoreError, read_lines, score_output
from experiments.recipes.recipe import ROOT, Recipe, RecipeError, load_recipe
from experiments.report.summary import System, as_markdown, examples, hardware, versions
from experiments.runs.processes import (
    Busy,
    JobFailed,
    lock,
    read_stamp,
    stop_all,
    stop_on_signals,
    write_atomic,
    write_stamp,
)
from experiments.runs.progress import Progress, clock
from experiments.runs.run import Prepared, Run, settings_hash
from experiments.runs.schedule import cores, run_all

CONFIGS = ROOT / "configs" / "quickstart"
SCORING_SECONDS = 8.0


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="quickstart", description="Trains and compares a local-attention Transformer; see quickstart.sh"
    )
    parser.add_argument("--arch", default="transformer_mma")
    parser.add_argument("--data", default="toy")
    parser.add_argument("--recipe", type=Path, help="a recipe of your own in place of --data's")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "quickstart")
    parser.add_argument("--local", help="folder with the corpus, for --data multi30k")
    parser.add_argument("--started", type=float, help="when the quick start began, in seconds since 1970")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    return parser.parse_args()


def architectures(arch: str) -> tuple[str, str]:
    """The architecture in its quick-start size, and the plain Transformer of that size. Raises RecipeError."""
    import fairseq_localattn  # noqa: F401  registers the architectures
    from fairseq_localattn.models.architectures import baseline_of, localattn_architectures, quick_size_of

    known = localattn_architectures("translation")
    if arch not in known:
        raise RecipeError(f"--arch {arch}: no such architecture; there are {', '.join(sorted(known))}")
    sized = quick_size_of(arch)
    return sized, baseline_of(sized)


def recipe_for(data: str, arch: str, own: Path | None) -> Recipe:
    """The quick start's recipe for a data set, or one's own. Raises RecipeError for an unknown one.

    A recipe <data>_<more> that has the architecture among its systems goes before <data>.
    """
    if own is not None:
        return load_recipe(own)
    for path in sorted(CONFIGS.glob(f"{data}_*.yaml")):
        recipe = load_recipe(path)
        if system_of(recipe, arch) != arch:
            return recipe
    path = CONFIGS / f"{data}.yaml"
    if not path.exists():
        there = sorted(p.stem for p in CONFIGS.glob("*.yaml") if "_" not in p.stem)
        raise RecipeError(f"--data {data}: no such data set; there are {', '.join(there)}")
    return load_recipe(path)


def system_of(recipe: Recipe, arch: str) -> str:
    """The recipe's system with this architecture; without one the architecture itself."""
    systems = recipe.get("systems", {})
    return next((name for name, entries in systems.items() if entries["arch"].value == arch), arch)


def gpu_note(recipe: Recipe) -> str | None:
    """A line for a machine with a GPU that the recipe does not use."""
    import torch

    if not recipe.flag("train", "cpu") or not torch.cuda.is_available():
        return None
    return "there is a CUDA GPU, but this recipe trains on the CPU (cpu: true); compare.py has recipes for a GPU"


def make_runs(recipe: Recipe, archs: tuple[str, str], data: Prepared, out: Path) -> list[Run]:
    """The two runs; a run's folder carries its settings, so that other settings never continue it."""
    seed = recipe.get("seeds", [1])[0]
    threads = recipe.get("threads", 1)
    runs = []
    for arch in archs:
        _, own = recipe.system(system_of(recipe, arch))
        settings = settings_hash(own, data.fingerprint_for(own))
        runs.append(Run(own, arch, seed, data, out / f"{arch}.seed{seed}.{settings}", threads))
    return runs


def collect(runs: list[Run], recipe: Recipe) -> dict[str, Any]:
    """Scores both systems and gathers all that the summary says."""
    system, baseline = runs
    test = system.data.test_set()
    scored = [
        System(system, score_output(system.output, test, baseline.output)),
        System(baseline, score_output(baseline.output, test)),
    ]
    significance = scored[0].report.significance
    assert significance is not None
    sources = read_lines(system.data.folder / "raw" / f"test.{system.data.source}")
    return {
        "data": recipe.get("data")["name"],
        "baseline": baseline.arch,
        "sentences": scored[0].report.sentences,
        "systems": [s.row() for s in scored],
        "difference": round(significance.difference, 2),
        "test": significance.signature,
        "examples": examples(scored, sources),
        "hardware": hardware(recipe.get("hardware", "cpu"), recipe.get("threads", 1)),
        "versions": versions(),
        "commit": ", ".join(sorted({run.commit() for run in runs})),
    }


def quickstart(args: argparse.Namespace) -> None:
    archs = architectures(args.arch)
    recipe = recipe_for(args.data, archs[0], args.recipe)
    local = local_folder(recipe, args.local)
    out = args.out.resolve() / recipe.name
    data = data_of(recipe, out)
    threads = recipe.get("threads", 1)
    if args.dry_run:
        print(shlex.join(prepare_argv(recipe, data, local)))
        for run in make_runs(recipe, archs, data, out):
            print(shlex.join(run.train_argv()), shlex.join(run.generate_argv()), sep="\n")
        return
    progress = Progress(args.started)
    lanes = max(1, min(2, cores() // threads))
    trainings = 60.0 * recipe.get("expect_minutes", 5) * 2 / lanes + 40
    with lock(args.out.resolve()):
        prepare(recipe, data, local, progress, after=trainings + SCORING_SECONDS, threads=threads)
        progress.say(f"data: ready in {data.folder}")
        if note := gpu_note(recipe):
            progress.say(note)
        runs = make_runs(recipe, archs, data, out)
        for run in runs:
            progress.say(run.plan())
        kept = runs[0].folder / "summary"
        facts = read_stamp(kept.with_suffix(".json")) if all(run.done() for run in runs) else None
        if facts is None:
            facts = train_and_score(runs, recipe, lanes, progress)
            write_stamp(kept.with_suffix(".json"), facts)
        text = as_markdown(f"Quick start: {archs[0]} and {archs[1]} on {facts['data']}", facts)
        for folder in (runs[0].folder, args.out.resolve()):  # there the newest summary, of whatever architecture
            write_atomic(folder / "summary.md", text)
        write_stamp(args.out.resolve() / "summary.json", facts)
        progress.close()
    print("\n" + text)
    print(
        f"{clock(progress.elapsed())} since this start. "
        f"Summary: {args.out / 'summary.md'} and .json (kept in {runs[0].folder})"
    )


def train_and_score(runs: list[Run], recipe: Recipe, lanes: int, progress: Progress) -> dict[str, Any]:
    """Brings the two runs to their end; returns what the summary says. Raises JobFailed, ScoreError."""
    continued = any(run.begun() for run in runs)
    run_all(
        runs,
        lanes,
        progress,
        after=SCORING_SECONDS,
        finished=lambda run: progress.say(f"{run.arch}: trained and decoded"),
    )
    progress.update("scoring and paired bootstrap", SCORING_SECONDS)
    facts = collect(runs, recipe)
    minutes = round((time.time() - progress.started) / 60, 2)
    return {**facts, "minutes": minutes, "continued": continued}


def main() -> int:
    args = parse_args()
    logging.disable(logging.INFO)  # of fairseq, in this process
    stop_on_signals()
    try:
        quickstart(args)
    except (RecipeError, Busy, ScoreError) as error:
        print(f"quickstart: error: {error}", file=sys.stderr)
        return 2
    except JobFailed as error:
        print(f"quickstart: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nquickstart: stopped; the same command continues from the last checkpoint", file=sys.stderr)
        return 130
    finally:
        stop_all()
    return 0
