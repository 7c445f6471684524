"""The plot of the part ``scaling``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairseq_localattn.analysis.command import matplotlib
from fairseq_localattn.errors import UsageError

from .report import Row

# Column, and what the axis says. For a thousand tokens: what is linear in the length is level.
PANELS = (("us_per_token", "ms for 1,000 tokens"), ("kib_per_token", "peak MiB for 1,000 tokens"))
_PER_THOUSAND = {"us_per_token": 1.0, "kib_per_token": 1000 / 1024}
_MARKERS = "osv^D<>pPX*"


def require_matplotlib() -> None:
    """Raises UsageError where it is not installed."""
    try:
        matplotlib(".pyplot")
    except UsageError:
        raise UsageError(
            "the part scaling needs matplotlib: pip install 'fairseq_localattn[plot]', or leave it out of --parts"
        ) from None


def draw_scaling(rows: Sequence[Row], title: str, path: Path) -> None:
    """Time and peak memory of each attention over the tokens of a sentence, both logarithmic."""
    matplotlib("").use("Agg")
    plt = matplotlib(".pyplot")
    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
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
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    figure.savefig(new, dpi=120, format="png")
    new.replace(path)
    plt.close(figure)
