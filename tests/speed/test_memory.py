"""The allocator's settings, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fairseq_localattn.speed import memory

# Loads the module by its file, which takes no time, instead of the whole package.
FAULTS = """
import importlib.util, resource, sys
spec = importlib.util.spec_from_file_location("memory", sys.argv[1])
memory = importlib.util.module_from_spec(spec)
spec.loader.exec_module(memory)
print(memory.keep_freed_memory() if sys.argv[2] == "keep" else memory.SYSTEM)
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = bytearray(1 << 26)
    block[:: 4096] = b"x" * (1 << 14)
    del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def in_a_process(how: str, **more: str) -> tuple[str, int]:
    """Return the allocator that a process reports, and the page faults of the third block of 64 MiB that it makes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    words = [sys.executable, "-c", FAULTS, memory.__file__, how]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**environment, **more})
    said, faults = done.stdout.splitlines()
    return said, int(faults)


def test_freed_memory_is_kept() -> None:
    """By default a block causes one page fault per 4 KiB, or per 2 MiB with huge pages; kept memory hardly any."""
    said, kept = in_a_process("keep")
    if "not glibc" in said:
        pytest.skip("not glibc")
    assert said == memory.KEPT
    _, left = in_a_process("leave")
    assert 2 * kept < left


def test_settings_in_the_environment_are_respected() -> None:
    said, _ = in_a_process("keep", MALLOC_ARENA_MAX="2")
    assert said == f"{memory.SYSTEM} (set in the environment)"
