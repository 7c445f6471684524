"""Compile Triton's kernels without a GPU.

Reads launches as JSON (support/kernels/__init__.py), and prints the memory and the stack of each.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TARGET = GPUTarget("cuda", 80, 32)
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def compiled(launch: dict[str, Any]) -> dict[str, int]:
    """Compile one launch to the GPU's machine code."""
    kernel = getattr(importlib.import_module(launch["module"]), launch["kernel"])
    types = {name: launch["types"].get(name, "constexpr") for name in kernel.arg_names}
    # As in training: pointers and the steps between rows are multiples of 16.
    aligned = [n for n, (name, kind) in enumerate(types.items()) if kind[0] == "*" or re.search("_[a-z]$", name)]
    attributes = {(n,): [["tt.divisibility", 16]] for n in aligned if list(types.values())[n] != "constexpr"}
    source = ASTSource(kernel, types, constexprs=launch["constants"], attrs=attributes)
    found = triton.compile(source, target=TARGET, options={"num_warps": launch["warps"]})
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(found.asm["cubin"])
        file.flush()
        used = subprocess.run([str(CUOBJDUMP), "-res-usage", file.name], capture_output=True, text=True).stdout
    (stack,) = re.findall(r"STACK:(\d+)", used)
    return {"shared": found.metadata.shared, "stack": int(stack)}


if __name__ == "__main__":
    print(json.dumps([compiled(launch) for launch in json.load(sys.stdin)]))
