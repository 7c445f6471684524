"""Files as fairseq-generate writes them, and the command that scores them, for the tests of scoring."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.measure import command
from support import cli

LAST = "Generate test with beam=5: BLEU4 = 10.00, 1/1/1/1 (BP=1.000, ratio=1.000, syslen=1, reflen=1)"


def write_output(
    path: Path,
    tokens: Sequence[str],
    order: Sequence[int] | None = None,
    last: bool = True,
    sources: Sequence[str] | None = None,
    interactive: bool = False,
) -> Path:
    """Write the hypotheses as fairseq-generate does, in an order of its own, or as -interactive; return the path."""
    lines = []
    last = last and not interactive
    for index in order if order is not None else range(len(tokens)):
        source = "quelle" if sources is None else sources[index]
        second = f"W-{index}\t0.043\tseconds" if interactive else f"T-{index}\tziel"
        lines += [f"S-{index}\t{source}", second, f"H-{index}\t-0.5\t{tokens[index]}"]
        lines += [f"D-{index}\t-0.5\t{tokens[index]}", f"P-{index}\t-0.1 -0.2"]
    path.write_text("\n".join([*lines, *([LAST] if last else [])]) + "\n", encoding="utf-8")
    return path


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    """Write one string a line; return the path."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def noisy(lines: Sequence[str], rate: float, seed: int) -> list[str]:
    """Return the lines with a share ``rate`` of their words replaced by x."""
    noise = random.Random(seed)
    return [" ".join(word if noise.random() > rate else "x" for word in line.split()) for line in lines]


def run_score(*args: object) -> cli.Done:
    """Run scripts/score.py with these arguments, in this process."""

    return cli.call(lambda: sys.exit(command.main()), *args, check=False)


def assert_one_line(failed: cli.Done, message: str) -> None:
    """Assert that it failed, with one line that says this."""
    assert failed.returncode == 2 and failed.stdout == ""
    assert failed.stderr.startswith("score: ") and failed.stderr.count("\n") == 1
    assert message in failed.stderr
