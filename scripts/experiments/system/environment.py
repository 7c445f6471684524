"""The machine and the software of a run."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from pathlib import Path

from fairseq_localattn.parallel import cores

PACKAGE = "fairseq_localattn"
# Where both of fairseq's are installed, the later one counts.
DISTRIBUTIONS = {"torch": "torch", "fairseq": "fairseq", "fairseq-fixed": "fairseq"}
DISTRIBUTIONS |= {PACKAGE: PACKAGE, "sacrebleu": "sacrebleu"}


def versions() -> dict[str, str]:
    """Return the versions of Python, torch, fairseq, this package and sacreBLEU."""
    found = {"python": platform.python_version(), **dict.fromkeys(DISTRIBUTIONS.values(), "not installed")}
    for distribution, name in DISTRIBUTIONS.items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(distribution)
    return found


def hardware(kind: str, threads: int) -> str:
    """Return the machine in words: the GPU's name, or the CPU's with its cores and the threads of one run.

    A CPU is named with its vector instructions: where they are others, rounding is, and a training ends elsewhere.
    """
    import torch

    if kind == "gpu":
        return torch.cuda.get_device_name(0)
    vectors = torch.backends.cpu.get_cpu_capability()
    return f"{_cpu_model()} ({vectors}), {cores()} cores, {threads} thread{'s' if threads > 1 else ''} a run"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
