"""Peak memory of a call, above what was live before it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def peak_bytes(run: Callable[[], object], device: torch.device) -> int:
    """The most bytes of tensors that ``run`` has on the device at any moment, more than there were before.

    On a GPU by the counters of torch's allocator. On a CPU exact as well: the running sum of all that the profiler has
    seen to be taken and given back. That takes time, so a call is either timed or looked at. What libraries take beside
    torch's allocator is not seen.
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
    seen = profiler.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), at, event.nbytes()) for at, event in enumerate(seen) if _is_memory(event))
    live = peak = 0
    for _, _, size in changes:
        live += size
        peak = max(peak, live)
    return peak


def _is_memory(event: object) -> bool:
    return event.name() == "[memory]"  # type: ignore[attr-defined]
