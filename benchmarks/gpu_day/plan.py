"""The steps of a GPU day, in the order of their worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.recipes.recipe import ROOT
from experiments.system.environment import cores

from .course import Step
from .machine import CourseError

TABLES = Path("results") / "benchmarks"  # in OUT
STAGES = ("launches", "optimizer", "graphs", "contract", "tables", "trainings")
TABLE = ("comparisons", "mechanisms")
SAME = ("comparisons", "graphs")  # a table whose scores should be equal
ROWS = ("transformer", "mma", "csan_1d", "csan_2d", "man_full", "diffwin", "mgsa_ngram")
MOST_WORKERS = 15  # of the contract suite: its models are tiny, and each process has a context on the GPU


@dataclass(frozen=True)
class Size:
    """How much is measured: flags of the commands, and the precisions of the tables."""

    precisions: tuple[str, ...]
    trainings: tuple[str, ...]
    same: tuple[str, ...]
    contract: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    lengths: tuple[str, ...] = ()
    tokens: tuple[int, ...] = (4096, 32_768)
    graphs: tuple[str, ...] = ("--graphs", "0,16")


SIZES = {
    "base": Size(
        precisions=("bf16", "fp32"),
        trainings=("--scale", "full", "--rows", ",".join(ROWS), "--jobs", str(len(ROWS))),
        same=("--scale", "full", "--jobs", "2"),
    ),
    # Each command of the course, in little time: to see that it works.
    "tiny": Size(
        contract=("-m", "not slow", "-k", "test_state_dict_round_trip and transformer_mma_tiny"),
        tables=tuple("--size tiny --tokens 200 --pairs 400 --words 50 --rounds 3 --warm-up 1".split()),
        systems=("--systems", "mma,csan_1d"),
        lengths=("--lengths", "16,64"),
        tokens=(200, 300),
        precisions=("fp32",),
        trainings=("--smoke", "--rows", "mma"),
        same=("--smoke",),
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

    where = ("--out", str(work / "trainings"), "--results", str(out / "results"), "--seeds", "1")
    script = str(ROOT / "scripts" / "table.py")
    trainings = Step("trainings", "trainings", (script, *TABLE, *chosen.trainings, *where), 12, out=out, continues=True)
    same_score = Step("graphs_scores", "trainings", (script, *SAME, *chosen.same, *where), 8, out=out, continues=True)
    first, *others = chosen.precisions
    return [
        table("launches", first, 2),
        table("optimizer", first, 1),
        *(fused("optimizer", "step", tokens, 4) for tokens in chosen.tokens),
        *(fused("graphs", "training", tokens, 6) for tokens in chosen.tokens),
        contract("fp32", 2),
        table("step", first, 3),
        table("module", first, 3),
        trainings,
        same_score,
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
