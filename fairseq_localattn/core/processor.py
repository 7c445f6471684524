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


def multiplies_bf16() -> bool:
    """Return whether the CPU multiplies matrices of bfloat16: AVX512_BF16, which CPUs with AMX have too."""
    return bool(torch.cpu._is_avx512_bf16_supported())


def bf16_is_faster() -> bool:
    """Return whether such products take less time than those of fp32: on Intel's CPUs only by AMX."""
    return multiplies_bf16() and (torch.cpu._is_amx_tile_supported() or not is_of("GenuineIntel"))
