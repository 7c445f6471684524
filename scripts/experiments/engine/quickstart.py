"""The quick start after its set-up: two rows of a table at small scale, and a summary. See scripts/quickstart.sh."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.engine.carry_out import prepare_all, show_commands
from experiments.engine.plan import Choice, Row, folders, make_plan
from experiments.engine.table import as_status
from experiments.recipes.nodes import Entry, RecipeError
from experiments.recipes.recipe import Recipe
from experiments.recipes.scales import recipe_at
from experiments.recipes.tables import Table, find_table, load_table, tables_of
from experiments.report.summary import as_markdown, collect
from experiments.runs.launch import Launch
from experiments.runs.schedule import run_all
from experiments.system.checkout import ROOT
from experiments.system.options import OneLineParser
from experiments.system.processes import JobFailed, lock, write_stamp
from experiments.system.progress import Progress, clock
from fairseq_localattn.__main__ import SIZE
from fairseq_localattn.files import write_whole
from fairseq_localattn.parallel import cores

SCORING_SECONDS = 8.0
OWN_MERGES = "4000"  # of BPE on one's own text, as on Multi30k


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = OneLineParser(
        prog="quickstart", description="Trains and compares a local-attention Transformer; see quickstart.sh"
    )
    parser.add_argument("--arch", default="transformer_mma")
    parser.add_argument("--data", default="toy", help="toy, multi30k, or a folder with text of your own")
    parser.add_argument("--source", help="language of one's own text, from which is translated (de)")
    parser.add_argument("--target", help="language into which (en)")
    parser.add_argument("--table", type=Path, help="a table file of your own in place of --data's")
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "quickstart")
    parser.add_argument("--local", action="append", default=[], help="folder with the corpus, for --data multi30k")
    parser.add_argument("--started", type=float, help="when the quick start began, in seconds since 1970")
    parser.add_argument("--dry-run", action="store_true", help="print the commands only")
    return parser.parse_args(argv)


def sized(architecture: str) -> str:
    """Return an architecture in its quick-start size. Raises RecipeError for one that does not translate."""
    from fairseq_localattn.models.architectures import localattn_architectures, plain_architectures, quick_size_of

    if architecture in plain_architectures():
        raise RecipeError(f"--arch {architecture}: a baseline, trained beside what --arch names; give a variant")
    known = localattn_architectures("translation")
    if architecture not in known:
        raise RecipeError(f"--arch {architecture}: no such architecture; there are {', '.join(sorted(known))}")
    if known[architecture] == "transformer_localattn":  # the model of hybrids
        raise RecipeError(f"--arch {architecture}: without a text it is the Transformer; docs/own-data.md has tables")
    return quick_size_of(architecture)


def chosen_table(args: argparse.Namespace) -> Table:
    """Return the table of a data set, or one's own; of a folder that of Multi30k. Raises RecipeError."""
    known = tables_of("quickstart")
    own = args.data not in known and Path(args.data).is_dir()
    if not own and (given := args.source or args.target):
        raise RecipeError(f"--source or --target {given}: for --data FOLDER; {args.data} has languages of its own")
    if args.table is not None or own:
        table = load_table(args.table.resolve()) if args.table else find_table("quickstart", "multi30k")
        return on_own_text(table, args) if own else table
    if args.data not in known:
        raise RecipeError(f"--data {args.data}: no such data set; there are {', '.join(known)}")
    return find_table("quickstart", args.data)


def on_own_text(table: Table, args: argparse.Namespace) -> Table:
    """Return a table whose rows are trained on the text in the folder of --data. Raises RecipeError."""
    folder, pair = Path(args.data).resolve(), (args.source or "de", args.target or "en")
    recipes = [recipe_at(table, name, "small") for name in table.rows("small")]
    trees = {SIZE.sub("", recipe.architecture) for recipe in recipes if "--trees" in recipe.corpus.options}
    if SIZE.sub("", args.arch) in trees:
        raise RecipeError(f"--arch {args.arch}: reads trees, and --data FOLDER has none; docs/own-data.md has the way")
    options = ["--source", pair[0], "--target", pair[1], "--bpe", OWN_MERGES]
    for split in ("train", "valid", "test"):
        there = [lang for lang in pair if any((folder / f"{split}.{lang}{end}").is_file() for end in ("", ".gz"))]
        if len(there) == 1 or (split == "train" and not there):
            missing = next(lang for lang in pair if lang not in there)
            raise RecipeError(f"--data {args.data}: has no {split}.{missing}; --source and --target name the languages")
        options += [f"--{split}", str(folder / split)] if there else []
    data = {"name": "own", "prepare": "data-prep/prepare_parallel.sh", "options": options}
    data |= {"source": pair[0], "target": pair[1]}
    layer = {"data": {key: Entry(value, f"--data {args.data}") for key, value in data.items()}}
    sources = {name: replace(source, layers=(*source.layers, layer)) for name, source in table.sources.items()}
    return replace(table, sources=sources)


def two_rows(table: Table, architecture: str) -> list[Row]:
    """Return the row of an architecture and the row that it is tested against, in the architecture's size.

    An architecture of which no size has a row has the flags of the baseline. Raises RecipeError.
    """
    from fairseq_localattn.models.architectures import baseline_of

    recipes = {name: recipe_at(table, name, "small") for name in table.rows("small")}
    others = [name for name in recipes if table.baselines[name] is not None]
    if not others:
        raise RecipeError(f"{table.path}: no row with a baseline at small scale")
    family = SIZE.sub("", architecture)
    own = next((n for n in others if SIZE.sub("", recipes[n].architecture) == family), None)
    name = own or others[0]
    baseline = table.baseline(name)
    assert baseline is not None
    plain = recipe_at(*baseline, "small")
    system = recipes[own] if own else plain
    if recipes[name].architecture != architecture:
        like, name = name, architecture.removeprefix("transformer_").removesuffix("_small")
        table = replace(
            table,
            sources={**table.sources, name: table.sources[like]},
            baselines={**table.baselines, name: table.baselines[like]},
        )
    seeds: dict[str, Any] = {"seeds": plain.seeds[:1]}
    return [
        Row(table, name, replace(system, architecture=architecture, **seeds)),
        Row(table, baseline[1], replace(plain, architecture=baseline_of(architecture), **seeds)),
    ]


def gpu_note(recipe: Recipe) -> str | None:
    """Return a line for a machine with a GPU, which the quick start does not use."""
    import torch

    if recipe.hardware == "gpu" or not torch.cuda.is_available():
        return None
    return "there is a CUDA GPU, but the quick start trains on the CPU; scripts/<paper>/<table>.sh uses GPUs"


def quickstart(args: argparse.Namespace) -> int:
    table = chosen_table(args)
    rows = two_rows(table, sized(args.arch))
    out = args.out.resolve()
    choice = Choice(
        scale="small",
        launch=Launch(cpu=True),
        out=out,
        results=out / "results",
        local=folders(args.local, rows),
        jobs=max(1, min(2, cores() // rows[0].stated.threads)),
    )
    plan = make_plan(rows, choice)
    if args.dry_run:
        show_commands(plan, [out / "summary.md", out / "summary.json"])
        return 0
    plan.check_outputs(out / "summary.md", out / "summary.json")
    progress = Progress(args.started)
    with lock(out):
        if failures := prepare_all(plan, progress):
            raise JobFailed(next(iter(failures.values())))
        progress.say(f"data: ready in {plan.corpora[0].data.folder}")
        if note := gpu_note(rows[0].stated):
            progress.say(note)
        for run in plan.runs:
            progress.say(run.plan())
        to_do = [run for run in plan.runs if not run.done()]
        run_all(to_do, [choice.launch] * choice.jobs, progress, after=SCORING_SECONDS,
                finished=lambda run: progress.say(f"{run.arch}: trained and decoded"))  # fmt: skip
        progress.update("scoring and paired bootstrap", SCORING_SECONDS)
        system, baseline = plan.runs
        facts = collect(system, baseline)
        text = as_markdown(f"Quick start: {system.arch} and {baseline.arch} on {facts['data']}", facts)
        for folder in (system.folder, out):  # there the newest summary, of whatever architecture
            write_whole(folder / "summary.md", text)
            write_stamp(folder / "summary.json", facts)
        progress.close()
    print("\n" + text)
    print(
        f"{clock(progress.elapsed())} since this start. "
        f"Summary: {args.out / 'summary.md'} and .json (kept in {system.folder})"
    )
    return 0


def main(argv: list[str] | None = None) -> int:
    args = parse_args(argv)
    return as_status("quickstart", lambda: quickstart(args))
