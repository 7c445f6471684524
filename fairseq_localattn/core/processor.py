"""The CPU, and the vector width that torch's libraries use of it."""

from __future__ import annotations

from pathlib import Path

import torch


def is_of(vendor: str) -> bool:
    """Return whether the CPU is of this vendor, by the name that Linux gives; False elsewhere."""
    try:
        return vendor in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def mkl_is_narrow() -> bool:
    """Return whether MKL, torch's library of matrix products, leaves half of the CPU's vector width unused.

    It takes AVX2 on every CPU that is not Intel's; oneDNN takes AVX-512 where it is.
    """
    has_both = torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX512"
    return has_both and is_of("AuthenticAMD")
