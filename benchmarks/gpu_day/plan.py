"""The steps of a GPU day, in the order of their worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from experiments.recipes.recipe import ROOT
from fairseq_localattn.parallel import cores

from .course import Step
from .machine import CourseError

TABLES = Path("results") / "benchmarks"  # in OUT
STAGES = ("launches", "optimizer", "graphs", "contract", "tables", "trainings")
TABLE = ("comparisons", "mechanisms")
ROWS = ("transformer", "mma", "csan_1d", "csan_2d", "man_full", "diffwin", "mgsa_ngram")
MOST_WORKERS = 15  # of the contract suite: its models are tiny, and each process has a context on the GPU


class Trainings(NamedTuple):
    """The trainings of a table: flags of scripts/table.py at base size and at tiny size, and minutes at base size."""

    table: tuple[str, str]
    base: str
    tiny: str
    minutes: float


#: By step. The second has rows whose scores should be equal; the third is what "Which attention?" compares.
TRAININGS = {
    "trainings": Trainings(TABLE, f"--rows {','.join(ROWS)} --seeds 1 --jobs {len(ROWS)}", "--rows mma", 12),
    "graphs_scores": Trainings(("comparisons", "graphs"), "--seeds 1 --jobs 2", "", 8),
    "ranking": Trainings(
        ("comparisons", "iwslt14"),
        "--rows transformer,rope,rope_mma --seeds 1,2,3 --jobs 9",
        "--rows rope,rope_mma",
        15,
    ),
}


@dataclass(frozen=True)
class Size:
    """How much is measured: flags of the commands, and the precisions of the tables."""

    precisions: tuple[str, ...]
    contract: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    lengths: tuple[str, ...] = ()
    tokens: tuple[int, ...] = (4096, 32_768)
    graphs: tuple[str, ...] = ("--graphs", "0,16")


SIZES = {
    "base": Size(precisions=("bf16", "fp32")),
    # Each command of the course, in little time: to see that it works.
    "tiny": Size(
        contract=("-m", "not slow", "-k", "test_state_dict_round_trip and transformer_mma_tiny"),
        tables=tuple("--size tiny --tokens 200 --pairs 400 --words 50 --rounds 3 --warm-up 1".split()),
        systems=("--systems", "mma,csan_1d"),
        lengths=("--lengths", "16,64"),
        tokens=(200, 300),
        precisions=("fp32",),
    ),
}


def steps(device: str, size: str, out: Path, work: Path) -> list[Step]:
    """Return all steps, the worthiest first: what tells most is measured even where time is short."""
    chosen = SIZES[size]

    def contract(precision: str, minutes: float) -> Step:
        where = ("--device", device, "--precision", precision, "--junitxml", str(report_of(out, device, precision)))
        workers = ("-n", str(min(MOST_WORKERS, cores()))) if size == "base" else ("-p", "no:xdist")
        pytest = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"))
        argv = (*pytest, str(ROOT / "tests" / "contract"), *where, *workers, *chosen.contract)
        return Step(f"contract_{precision}", "contract", argv, minutes, out=out)

    def table(part: str, precision: str, minutes: float) -> Step:
        """Return a table by fairseq's optimizer, in the form of results/."""
        step = Step(f"{part}_{precision}", part if part in STAGES else "tables", (), minutes, out=out)
        return benchmark(step, part, precision, out / TABLES)

    def fused(stage: str, part: str, tokens: int, minutes: float) -> Step:
        """Return a table by this package's optimizer, beside fairseq's model by both."""
        step = Step(f"{stage}_{part}_{tokens}", stage, (), minutes, out=out)
        more = ["--tokens", str(tokens), "--optimizer", "localattn_adam"]
        more += chosen.graphs if part == "training" else ()
        return benchmark(step, part, chosen.precisions[0], out / TABLES / f"{stage}_{tokens}", *more)

    def benchmark(step: Step, part: str, precision: str, where: Path, *more: str) -> Step:
        run = (str(ROOT / "benchmarks" / "run.py"), "--device", device, "--parts", part, "--precision", precision)
        lengths = chosen.lengths if part in ("module", "scaling", "long") else ()
        systems = chosen.systems if part != "optimizer" else ()
        argv = (*run, *chosen.tables, *systems, *lengths, *more, "--out", str(where))
        return replace(step, argv=argv, threads=cores() if size == "base" else 1)

    def training(name: str) -> Step:
        """Return the trainings of a table, whose numbers go to its CSV."""
        each = TRAININGS[name]
        flags = f"--scale full {each.base}" if size == "base" else f"--smoke --seeds 1 {each.tiny}"
        where = ("--out", str(work / "trainings"), "--results", str(out / "results"))
        argv = (str(ROOT / "scripts" / "table.py"), *each.table, *flags.split(), *where)
        return Step(name, "trainings", argv, each.minutes, out=out, continues=True)

    first, *others = chosen.precisions
    return [
        table("launches", first, 2),
        table("optimizer", first, 1),
        *(fused("optimizer", "step", tokens, 4) for tokens in chosen.tokens),
        *(fused("graphs", "training", tokens, 6) for tokens in chosen.tokens),
        contract("fp32", 2),
        table("step", first, 3),
        table("module", first, 3),
        *(training(name) for name in TRAININGS),
        table("generation", first, 3),
        table("scaling", first, 2),
        table("long", first, 2),
        contract("bf16", 2),
        contract("fp16", 2),
        *(table(part, other, 3) for other in others for part in ("step", "module", "generation", "scaling", "long")),
    ]


def report_of(out: Path, device: str, precision: str) -> Path:
    """Return the path of the contract suite's report, in JUnit's format."""
    return out / "contract" / f"{device}_{precision}.xml"


def of_stages(found: Iterable[Step], text: str) -> list[Step]:
    """Return the steps of the comma-separated stages or steps. Raises CourseError."""
    every: Sequence[Step] = list(found)
    known = [*STAGES, *(step.name for step in every)]
    names = [name for name in text.split(",") if name]
    if unknown := [name for name in names if name not in known] or ([] if names else ["no name"]):
        raise CourseError(f"--stages {text}: {unknown[0]}: choose from {', '.join(known)}")
    return [step for step in every if step.stage in names or step.name in names]
