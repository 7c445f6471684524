"""Files as fairseq-generate writes them, for the tests of scoring."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.paths import SCRIPTS

LAST = "Generate test with beam=5: BLEU4 = 10.00, 1/1/1/1 (BP=1.000, ratio=1.000, syslen=1, reflen=1)"


def write_output(
    path: Path,
    tokens: Sequence[str],
    order: Sequence[int] | None = None,
    last: bool = True,
    sources: Sequence[str] | None = None,
) -> Path:
    """A file as fairseq-generate writes it."""
    lines = []
    for index in order if order is not None else range(len(tokens)):
        source = "quelle" if sources is None else sources[index]
        lines += [f"S-{index}\t{source}", f"T-{index}\tziel", f"H-{index}\t-0.5\t{tokens[index]}"]
        lines += [f"D-{index}\t-0.5\t{tokens[index]}", f"P-{index}\t-0.1 -0.2"]
    path.write_text("\n".join([*lines, *([LAST] if last else [])]) + "\n", encoding="utf-8")
    return path


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def noisy(lines: Sequence[str], rate: float, seed: int) -> list[str]:
    """The lines with a share of their words replaced by x."""
    noise = random.Random(seed)
    return [" ".join(word if noise.random() > rate else "x" for word in line.split()) for line in lines]


def run_score(*args: object) -> subprocess.CompletedProcess[str]:
    """scripts/score.py with these arguments."""
    command = [sys.executable, str(SCRIPTS / "score.py"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True)


def assert_one_line(failed: subprocess.CompletedProcess[str], message: str) -> None:
    """It failed, with one line that says this."""
    assert failed.returncode == 2 and failed.stdout == ""
    assert failed.stderr.startswith("score: ") and failed.stderr.count("\n") == 1
    assert message in failed.stderr
