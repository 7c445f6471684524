"""Memory that a process on a CPU has freed stays with the process.

By itself glibc takes each large block from the system and gives it back at once, and the first touch of new pages is up
to a fifth of a training step, and most of its spread. Who sets malloc in the environment (MALLOC_…_, GLIBC_TUNABLES) is
left alone.
"""

from __future__ import annotations

import ctypes
import os

# The parameters of mallopt(3), from malloc.h: never a mapping of a block's own; nothing given back; 256 MiB at a time.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_KEEP = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, 1 << 28))

SYSTEM = "system's"
KEPT = "glibc, keeping what is freed"


def keep_freed_memory() -> str:
    """Sets glibc's allocator so. Returns what is in force: :data:`KEPT`, or why the system's own was left."""
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return f"{SYSTEM} (set in the environment)"
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  AttributeError where the library is another one
        mallopt = library.mallopt
    except (OSError, AttributeError, TypeError):
        return f"{SYSTEM} (not glibc: nothing was set)"
    done = [mallopt(parameter, value) for parameter, value in _KEEP]
    return KEPT if all(done) else f"{SYSTEM} (glibc refused a setting)"
