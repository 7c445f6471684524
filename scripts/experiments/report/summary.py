"""The summary of the quick start: two systems, their scores, and translations of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from experiments.measure.generated import read_lines
from experiments.measure.scoring import Measurement, TestSet, translation
from experiments.report.text import markdown
from experiments.runs.run import Run
from experiments.system.environment import hardware, versions

EXAMPLES = 5


def collect(system: Run, baseline: Run) -> dict[str, Any]:
    """Score two finished runs against each other; return all that the summary says. Raises ScoreError."""
    test = TestSet.of(system.data)
    bleu = next(each for each in translation(system.output, test, baseline.output) if each.metric == "sacrebleu")
    assert bleu.difference is not None
    other = replace(bleu, score=bleu.score - bleu.difference, p_value=None)
    return {
        "data": system.recipe.corpus.name,
        "baseline": baseline.arch,
        "runs": [system.folder.name, baseline.folder.name],
        "sentences": len(test.raw()),
        "systems": [_row(system, bleu), _row(baseline, other)],
        "difference": round(bleu.difference, 2),
        "test": bleu.tested,
        "examples": examples([system, baseline]),
        "hardware": hardware("cpu" if system.on_cpu else "gpu", system.recipe.threads),
        "versions": versions(),
        "commit": ", ".join(sorted({system.commit(), baseline.commit()})),
    }


def _row(run: Run, bleu: Measurement) -> dict[str, Any]:
    """Return the facts of one system, for the table and the JSON file."""
    facts = run.facts()
    return {
        "architecture": run.arch,
        "bleu": round(bleu.score, 2),
        "signature": bleu.signature,
        "p_value": bleu.p_value,
        **{key: facts[key] for key in ("updates", "parameters", "words_per_second", "train_minutes")},
        "output": str(run.output),
    }


def examples(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Return EXAMPLES sentences spread evenly over the test set, or all: source, reference, each system's output."""
    data = runs[0].data
    test = TestSet.of(data)
    sources, references = read_lines(data.folder / "raw" / f"test.{data.source}"), test.raw()
    outputs = {run.arch: test.hypotheses(run.output) for run in runs}
    count = min(EXAMPLES, len(references))
    chosen = [len(references) * (2 * number + 1) // (2 * count) for number in range(count)]
    return [
        {"source": sources[i], "reference": references[i], **{name: lines[i] for name, lines in outputs.items()}}
        for i in chosen
    ]


def as_markdown(title: str, facts: dict[str, Any]) -> str:
    """Return the summary for reading; ``facts`` is what collect() returns."""
    rows = []
    for row in facts["systems"]:
        p = "" if row["p_value"] is None else f"{row['p_value']:.4f}"
        # None: the training was shorter than one interval of its log
        forms = (("train_minutes", ".1f"), ("words_per_second", ","))
        times = ["-" if row[key] is None else format(row[key], form) for key, form in forms]
        rows.append(
            [row["architecture"], f"{row['bleu']:.2f}", p, str(row["updates"]), f"{row['parameters']:,}", *times]
        )
    header = ("architecture", "BLEU", "p", "updates", "parameters", "training min", "target words/s")
    lines = [f"# {title}", "", markdown(header, rows), ""]
    lines += [
        f"gain: {facts['difference']:+.2f} BLEU",
        f"BLEU: {facts['systems'][0]['signature']}",
        f"p: paired bootstrap against {facts['baseline']}, {facts['test']}",
        "words/s: target sub-words a second, fairseq's wps averaged over the whole training",
        f"test set: {facts['sentences']} sentences; machine: {facts['hardware']}",
        "versions: " + ", ".join(f"{name} {value}" for name, value in facts["versions"].items()),
        f"commit: {facts['commit']}",
    ]
    for number, example in enumerate(facts["examples"], start=1):
        width = max(map(len, example))
        lines += ["", f"Example {number}", "", *(f"    {name:<{width}}  {text}" for name, text in example.items())]
    return "\n".join(lines) + "\n"
