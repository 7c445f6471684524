"""The results of the benchmarks as tables on the terminal, CSV files and a plot."""

from __future__ import annotations

import csv
import datetime
import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.system.environment import hardware, versions
from fairseq_localattn.analysis.command import new_figure, save_figure
from fairseq_localattn.files import write_whole

from .settings import Settings
from .timing import ratio_of

Row = dict[str, Any]
MIB = 1 << 20
NOT_MEASURED = "not measured: too large"

_SPEED = ("rounds", "time_ms", "ratio_median", "ratio_lowest", "ratio_highest")
_FLOPS = ("gflops", "flops_ratio", "efficiency")
# Columns of each part's table; a file has the columns of _MACHINE behind them.
COLUMNS = {
    "module": ("system", "tokens", "sentences", *_SPEED, *_FLOPS, "peak_mib", "note"),
    "step": (
        "system", "architecture", "parameters", "sentences", "target_tokens", "target_padding", *_SPEED,
        "target_tokens_per_s", "update_ms", *_FLOPS, "peak_mib",
    ),
    "long": ("system", "architecture", "tokens", "sentences", *_SPEED, "peak_mib"),
    "generation": ("system", "architecture", "sentences", "beam", "tokens", *_SPEED, "tokens_per_s"),
    "inference": ("system", "architecture", "weights", "sentences", "beam", "tokens", *_SPEED, "tokens_per_s"),
    "scaling": ("system", "tokens", "sentences", *_SPEED, "us_per_token", "peak_mib", "kib_per_token", "note"),
    "start": ("system", *_SPEED, "beyond_ms"),
    "optimizer": ("system", "architecture", "parameters", "tensors", *_SPEED),
    "training": ("system", "architecture", "target_tokens", *_SPEED, "target_tokens_per_s", "loss"),
    "launches": (
        "system", "architecture", "forward", "backward", "optimizer", "operations", "share", "syncs", "predicted_ms",
        "predicted_ratio", "note",
    ),
}  # fmt: skip
_MACHINE = (
    "device", "precision", "size", "options", "allocator", "commit", "date", "hardware", "python", "torch", "fairseq",
)  # fmt: skip

# Explanations printed above the tables.
NOTES = {
    "module": "forward and backward of one attention, input gradient too, half of the sentences with padding; tokens: "
    "of a sentence",
    "step": "forward, backward, norm, optimizer, clearing of gradients; sentences and target tokens: of the mean "
    "batch; target padding: share of the targets' positions; peak: of the largest batch",
    "long": "forward, backward, norm, optimizer, clearing of gradients; tokens: of either side of a pair",
    "generation": "beam search; tokens: written in a batch, </s> included",
    "inference": "the search without fairseq; time: CPU time; tokens: written in a batch, </s> included",
    "scaling": "one attention, forward and backward; tokens: of a sentence; per token: of all sentences",
    "start": "whole processes: fairseq-train to the error of a missing data folder, without and with --user-dir; "
    "`python -m fairseq_localattn --path`; import torch. beyond: median of the differences to the first in each round",
    "optimizer": "norm, optimizer and clearing of gradients alone, of fairseq's own model",
    "training": "updates by fairseq's trainer, with metrics; time: per update; ratio: by time per target word; "
    "loss: of the last round, in bits a word",
    "launches": "operations that start a kernel on a GPU, counted on the device meta in bf16, with localattn_adam; "
    "optimizer: with norm and clearing of gradients. share: of those of the first row of its kind. syncs: waits of the "
    "host for the GPU, with their places. predicted: by a fit to steps on an H200, not measured",
}
LEGEND = (
    "time: median of the rounds. ratio: time of fairseq's own / time of the system in the same round (median, lowest, "
    "highest).\nGFLOPs: matrix products, forward and backward, counted on the CPU. "
    "efficiency: ratio of forward and backward / (fairseq's FLOPs / the system's). update: the optimizer's part."
)


@dataclass(frozen=True)
class Run:
    """Facts that all rows of a run share."""

    settings: Settings
    threads: int
    allocator: str
    commit: str
    options: str = ""  # of the measurement, as far as they are not the default ones

    def facts(self) -> dict[str, str]:
        """Return the columns of _MACHINE."""
        kind = "gpu" if self.settings.device.type == "cuda" else "cpu"
        found = versions()
        return {
            "device": self.settings.device.type,
            "precision": self.settings.precision,
            "size": self.settings.size,
            "options": self.options,
            "allocator": self.allocator,
            "commit": self.commit,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "hardware": hardware(kind, self.threads),
            **{name: found[name] for name in ("python", "torch", "fairseq")},
        }

    def header(self) -> str:
        """Return two lines about the machine, the versions and the settings."""
        facts, settings = self.facts(), self.settings
        return "\n".join(
            [
                f"{facts['hardware']}; python {facts['python']}, torch {facts['torch']}, fairseq {facts['fairseq']}; "
                f"commit {facts['commit']}",
                f"{settings.precision}, size {settings.size}{self.options and f', {self.options}'}; "
                f"{settings.rounds} rounds after {settings.warm_up} to warm up; allocator of the CPU: {self.allocator}",
            ]
        )


def speed_columns(baseline: Sequence[float], own: Sequence[float]) -> Row:
    """Return the columns about time from the seconds of each round."""
    ratio = ratio_of(baseline, own)
    return {
        "rounds": len(own),
        "time_ms": 1000 * statistics.median(own),
        "ratio_median": ratio.median,
        "ratio_lowest": ratio.lowest,
        "ratio_highest": ratio.highest,
    }


def flop_columns(baseline: Sequence[float], own: Sequence[float], baseline_flops: int, own_flops: int) -> Row:
    """Return the columns about FLOPs from the seconds of each round and the FLOPs of the same work."""
    flops_ratio = baseline_flops / own_flops
    efficiency = ratio_of(baseline, own).median / flops_ratio
    return {"gflops": own_flops / 1e9, "flops_ratio": flops_ratio, "efficiency": efficiency}


def write_csv(path: Path, part: str, rows: Sequence[Row], facts: Mapping[str, str]) -> None:
    """Write a part's table, replacing an older file: numbers with six digits, empty where nothing was measured."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, [*COLUMNS[part], *_MACHINE], lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({name: _in_file(value) for name, value in {**row, **facts}.items()} for row in rows)
    write_whole(path, stream.getvalue())


def _in_file(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def as_text(part: str, rows: Sequence[Row]) -> str:
    """Return a part's table as aligned text, without empty columns."""
    names = [name for name in COLUMNS[part] if any(row.get(name, "") != "" for row in rows)]
    lines = [names, *([_to_read(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    words = {"system", "architecture", "note"}
    aligned = [
        "  ".join(
            cell.ljust(width) if name in words else cell.rjust(width)
            for name, cell, width in zip(names, line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]
    return "\n".join([f"{part}: {NOTES[part]}", "", *aligned])


def _to_read(value: Any) -> str:
    """Format a value with at least three digits and without an exponent."""
    if isinstance(value, float):
        decimals = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
        return f"{value:,.{decimals}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


# Column and label of each axis. Per thousand tokens: a cost linear in the length is a horizontal line.
PANELS = (("us_per_token", "ms for 1,000 tokens"), ("kib_per_token", "peak MiB for 1,000 tokens"))
_PER_THOUSAND = {"us_per_token": 1.0, "kib_per_token": 1000 / 1024}
_MARKERS = "osv^D<>pPX*"


def draw_scaling(rows: Sequence[Row], title: str, path: Path) -> None:
    """Plot time and peak memory of each attention against the tokens of a sentence, on logarithmic axes."""
    figure = new_figure(figsize=(12, 5))
    axes = figure.subplots(1, 2)
    for axis, (column, label) in zip(axes, PANELS, strict=True):
        for number, system in enumerate(dict.fromkeys(row["system"] for row in rows)):
            points = [(row["tokens"], row[column]) for row in rows if row["system"] == system and column in row]
            if points:
                x, y = zip(*points, strict=True)
                values = [_PER_THOUSAND[column] * value for value in y]
                marker = _MARKERS[number % len(_MARKERS)]
                axis.plot(x, values, label=system, marker=marker, markersize=4, color="black" if not number else None)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("tokens of a sentence")
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.suptitle(title, fontsize=9)
    save_figure(figure, path, dpi=120)
