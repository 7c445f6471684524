"""How kernels become operators of torch, where they run, and the seeds of their dropout.

An operator has one implementation that launches kernels, on a GPU or by Triton's interpreter on a CPU
(``TRITON_INTERPRET=1``), and one for the device ``meta``, which makes the results without values. Its gradient is a
``torch.autograd.Function`` that calls a second operator: ``torch.library.custom_op`` would take twice the host's time.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

LIBRARY = torch.library.Library("localattn", "DEF")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MOST_BYTES = 512  # of a head's channels: 128 in fp32. Blocks of more do not fit into the memory of a GPU's processor


def operator(schema: str, run: Callable[..., Any], make: Callable[..., Any]) -> Callable[..., Any]:
    """Define ``localattn::<name>`` and return it.

    Args:
        schema: name, arguments and results, as torch writes them: ``dman(Tensor q, float scaling) -> Tensor``.
        run: computes it by kernels on the device of its first tensor. Results are new tensors; no argument is changed.
        make: returns results of the same shapes, types and strides from tensors without values.
    """
    name = schema.partition("(")[0]

    def run_there(x: Tensor, *args: Any) -> Any:
        with torch.cuda.device(x.device):  # Triton launches on the current GPU
            return run(x, *args)

    LIBRARY.define(schema)
    for key, function in {"CPU": run, "CUDA": run_there, "Meta": make}.items():
        LIBRARY.impl(name, function, key)
    found: Callable[..., Any] = getattr(torch.ops.localattn, name).default
    return found


def reason_against_triton(q: Tensor) -> str | None:
    """Return why no kernel of Triton computes attention of queries …×D, or None where one can."""
    if q.device.type not in ("cuda", "meta") and not (q.device.type == "cpu" and interpreted()):
        return f"it does not run on the device {q.device.type}"
    if q.device.type != "meta" and not is_installed():
        return "Triton is not installed"
    if q.dtype not in DTYPES:
        return f"it does not compute in {str(q.dtype).removeprefix('torch.')}"
    if q.size(-1) * q.element_size() > MOST_BYTES:
        return f"it has no heads of more than {MOST_BYTES // q.element_size()} channels in this precision"
    if q.device.type == "cuda" and not _is_recent(q.device.index):
        return "the GPU is older than Triton supports"
    if torch.are_deterministic_algorithms_enabled():
        return "its sums have no fixed order, and deterministic algorithms are asked for"
    return None


@cache
def is_installed() -> bool:
    """Return whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    """Return whether Triton's interpreter runs the kernels; it reads this variable when they are imported."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


@cache
def _is_recent(device: int | None) -> bool:
    return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)


def draw_seed(device: torch.device) -> Tensor:
    """Draw the seed of one dropout by torch's generator of the device, int64 without dimensions.

    Nothing waits for the GPU, and a CUDA graph draws anew each time that it is replayed.
    """
    return torch.empty((), dtype=torch.int64, device=device).random_()


def block_size(length: int, head_dim: int, itemsize: int) -> int:
    """Return how many queries, and keys, a program computes at once: a power of two of at least 16.

    Such that what it holds fits into the memory of a GPU's processor.
    """
    row = head_dim * itemsize
    most = 64 if row <= 128 else 32 if row <= 256 else 16
    return min(most, max(16, power_of_two(length)))


def power_of_two(number: int) -> int:
    """Return the least power of two that is not below ``number``."""
    return 1 << (number - 1).bit_length()


def warps(block: int, row: int = 128) -> int:
    """Return the number of warps of a program whose blocks have rows of so many bytes.

    With fewer, kernels compiled for sm_90 need more registers than there are.
    """
    return block // 8 * (1 if row <= 128 else 2)


def in_rows(like: Tensor) -> Tensor:
    """Return a new tensor B×H×T×D that lies in memory as T×B×H×D, as projections read and write it."""
    batch, heads, length, channels = like.shape
    return like.new_empty(length, batch, heads, channels).permute(1, 2, 0, 3)


def with_adjacent_channels(x: Tensor) -> Tensor:
    """Return x, …×D, copied if its channels do not lie one beside the other."""
    return x if x.stride(-1) == 1 else x.contiguous()
