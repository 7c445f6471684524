"""The cost of a call apart from its time: floating-point operations of matrix products, and peak memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode


def count_flops(run: Callable[[], object]) -> int:
    """Count the FLOPs of all matrix products in a call of ``run``; one multiplication and one addition are two FLOPs.

    torch cannot count the CPU's fused attention, so attention is computed by products here. Its causal kernel is called
    directly, and only the products of a query with the keys that it sees count. Element-wise operations (softmax,
    dropout, normalisation, the optimizer) count as 0.
    """
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    counts = {flash: lambda q, *_, **__: _seen(q, 2), backward: lambda _, q, *__, **___: _seen(q, 4)}
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False, custom_mapping=counts) as counter:
        run()
    return counter.get_total_flops()


def _seen(shape: torch.Size, products: int) -> int:
    """Return the FLOPs of ``products`` matrix products over the visible half of T×T, from B×H×T×D."""
    batch, heads, length, channels = shape
    return products * batch * heads * length * (length + 1) * channels


def extrapolate_flops(count: Callable[[int], int], sentences: int, most: int) -> int:
    """Return the FLOPs of ``sentences`` sentences of one length, counting at most ``most`` of them.

    FLOPs are a linear function of the number of sentences with an intercept: attention to neighbouring heads saves some
    FLOPs at the first and last head of a batch. So they are extrapolated from two counts.

    Args:
        count: returns the FLOPs of a number of sentences.
        sentences: the number asked for.
        most: 2 or more.
    """
    if sentences <= most:
        return count(sentences)
    half = most // 2
    fewer, more = count(half), count(most)
    return more + (more - fewer) * (sentences - most) // (most - half)


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """Return the peak memory of tensors during a call of ``run``, in bytes above the memory in use before it.

    On a GPU it is read from torch's allocator; on a CPU it is the running sum of allocations and releases that torch's
    profiler records, which slows the call down. Memory that libraries allocate themselves is not included.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=False) as profiler:
        run()
    events: Any = profiler.profiler.kineto_results.events()
    memory = (event for event in events if event.name() == "[memory]")
    changes = sorted((event.start_ns(), at, event.nbytes()) for at, event in enumerate(memory))
    live = peak = 0
    for _, _, size in changes:
        live += size
        peak = max(peak, live)
    return peak
