"""Settings of glibc's allocator: keep freed memory in the process.

By default glibc maps each large block separately and returns it to the system when it is freed. Touching new pages for
the first time then takes up to a fifth of a training step on a CPU, and causes most of its variation. Settings in the
environment (``MALLOC_…_``, ``GLIBC_TUNABLES``) take precedence.
"""

from __future__ import annotations

import ctypes
import os

# Parameters of mallopt(3), from malloc.h: no separate mappings, no trimming, growth by 256 MiB at a time.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_KEEP = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, 1 << 28))

SYSTEM = "system's"
KEPT = "glibc, keeping what is freed"


def keep_freed_memory() -> str:
    """Make glibc keep freed memory. Returns :data:`KEPT`, or a text that says why the default is still in force."""
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return f"{SYSTEM} (set in the environment)"
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  AttributeError if the C library is not glibc
        mallopt = library.mallopt
    except (OSError, AttributeError, TypeError):
        return f"{SYSTEM} (not glibc: nothing was set)"
    done = [mallopt(parameter, value) for parameter, value in _KEEP]
    return KEPT if all(done) else f"{SYSTEM} (glibc refused a setting)"
