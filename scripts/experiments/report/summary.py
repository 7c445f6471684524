"""What a runner reports of its machine, its software and its two systems."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.measure.command import Report
from experiments.runs.run import Run
from experiments.runs.schedule import cores

PACKAGE = "fairseq_localattn"


def versions() -> dict[str, str]:
    """Versions of Python and of what decides the results."""
    found = {"python": platform.python_version()}
    for name, dists in (
        ("torch", ("torch",)),
        ("fairseq", ("fairseq-fixed", "fairseq")),
        (PACKAGE, (PACKAGE,)),
        ("sacrebleu", ("sacrebleu",)),
    ):
        found[name] = next((v for v in map(_version, dists) if v), "not installed")
    return found


def _version(dist: str) -> str | None:
    try:
        return importlib.metadata.version(dist)
    except importlib.metadata.PackageNotFoundError:
        return None


def hardware(kind: str, threads: int) -> str:
    """The machine in words: the GPU's name, or the CPU's with its cores and the threads of one run."""
    if kind == "gpu":
        import torch

        return torch.cuda.get_device_name(0)
    return f"{_cpu_model()}, {cores()} cores, {threads} thread{'s' if threads > 1 else ''} a run"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


@dataclass(frozen=True)
class System:
    """A trained system and its scores."""

    run: Run
    report: Report

    def row(self) -> dict[str, Any]:
        """The facts of one system, for the table and the JSON file."""
        facts = self.run.facts()
        significance = self.report.significance
        return {
            "architecture": self.run.arch,
            "bleu": round(self.report.bleu.score, 2),
            "signature": self.report.bleu.signature,
            "p_value": None if significance is None else significance.p_value,
            "updates": facts["updates"],
            "parameters": facts["parameters"],
            "words_per_second": facts["words_per_second"],
            "train_minutes": facts["train_minutes"],
            "output": str(self.run.output),
        }


def examples(systems: Sequence[System], sources: Sequence[str], count: int = 5) -> list[dict[str, str]]:
    """`count` sentences spread evenly over the test set, or all: source, reference, each system's output."""
    test = systems[0].run.data.test_set()
    references = test.raw()
    outputs = {system.run.arch: test.hypotheses(system.run.output) for system in systems}
    count = min(count, len(references))
    chosen = [len(references) * (2 * number + 1) // (2 * count) for number in range(count)]
    return [
        {"source": sources[i], "reference": references[i], **{name: lines[i] for name, lines in outputs.items()}}
        for i in chosen
    ]


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def as_markdown(title: str, facts: dict[str, Any]) -> str:
    """The summary of the quick start for reading; `facts` is what goes into summary.json."""
    lines = [
        f"# {title}",
        "",
        "| architecture | BLEU | p | updates | parameters | training min | target words/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in facts["systems"]:
        p = "" if row["p_value"] is None else f"{row['p_value']:.4f}"
        numbers = f"{row['updates']} | {row['parameters']:,}"
        # None: the training was shorter than one interval of its log
        minutes, speed = (
            _or_dash(row[key], form) for key, form in (("train_minutes", ".1f"), ("words_per_second", ","))
        )
        lines.append(f"| {row['architecture']} | {row['bleu']:.2f} | {p} | {numbers} | {minutes} | {speed} |")
    lines += ["", f"BLEU: {facts['systems'][0]['signature']}"]
    lines += [f"p: paired bootstrap against {facts['baseline']}, {facts['test']}"]
    lines += ["words/s: target sub-words a second, fairseq's wps averaged over the whole training"]
    lines += [f"test set: {facts['sentences']} sentences; machine: {facts['hardware']}"]
    lines += [
        "versions: " + ", ".join(f"{name} {value}" for name, value in facts["versions"].items()),
        f"commit: {facts['commit']}",
    ]
    for number, example in enumerate(facts["examples"], start=1):
        width = max(map(len, example))
        lines += ["", f"Example {number}", "", *(f"    {name:<{width}}  {text}" for name, text in example.items())]
    return "\n".join(lines) + "\n"
