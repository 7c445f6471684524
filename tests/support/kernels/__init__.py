"""Triton in tests: kernels run by its interpreter where no GPU is, recorded, and compiled without a GPU."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from support.paths import ROOT

TESTS = ROOT / "tests"

without_triton = importlib.util.find_spec("triton") is None
needs_triton = pytest.mark.skipif(without_triton, reason="Triton is not installed")
needs_interpreter = pytest.mark.skipif(
    without_triton or torch.cuda.is_available(),
    reason="Triton is not installed" if without_triton else "there is a GPU",
)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason=f"torch {torch.__version__} sees no GPU")
#: Where kernels run in this process.
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Bytes of shared memory that a program has on every GPU since sm_80.
SHARED_MEMORY = 99 * 1024
_TYPES = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.int32: "i32",
}


def ask_for_the_interpreter() -> None:
    """Let Triton interpret its kernels, unless there is a GPU; only before it is imported."""
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")


@contextmanager
def recorded(run: bool = True) -> Iterator[list[dict[str, Any]]]:
    """Yield a list of the launches of kernels inside, each as module, name, types, constants and warps.

    Without ``run`` nothing is computed: the interpreter has no products of bfloat16.
    """
    from triton.runtime.interpreter import InterpretedFunction

    launches: list[dict[str, Any]] = []
    compute = InterpretedFunction.run

    def launch(self: Any, *args: Any, grid: Any, warmup: bool, num_warps: int = 4, **kwargs: Any) -> None:
        parameters = inspect.signature(self.fn).parameters
        given = dict(zip(parameters, args, strict=False)) | kwargs
        constants = {
            name: x for name, x in given.items() if x is None or "constexpr" in str(parameters[name].annotation)
        }
        types = {name: _type_of(x) for name, x in given.items() if name not in constants}
        launches.append(
            {
                "module": self.fn.__module__,
                "kernel": self.fn.__name__,
                "types": types,
                "constants": constants,
                "warps": num_warps,
            }
        )
        if run:
            compute(self, *args, grid=grid, warmup=warmup, num_warps=num_warps, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InterpretedFunction, "run", launch)
        yield launches


def _type_of(argument: Any) -> str:
    if isinstance(argument, Tensor):
        return "*" + _TYPES[argument.dtype]
    return "fp32" if isinstance(argument, float) else "i32"


def compile_launches(launches: list[dict[str, Any]]) -> list[dict[str, int]]:
    """Compile kernels as they were launched for a GPU of sm_80, and return the shared memory and the stack of each.

    In another process, in which Triton does not interpret. A stack of many bytes means that registers are spilt.
    """
    settings = {"TRITON_INTERPRET": "0", "TRITON_DEFAULT_FP_FUSION": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}"}
    command, given = [sys.executable, "-m", "support.kernels.compiling"], json.dumps(launches)
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | settings | {"TRITON_CACHE_DIR": cache}
        done = subprocess.run(command, input=given, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def padding_of(side: str, keys: int) -> Tensor | None:
    """Return the padding of two sentences: the first is all padding, the second in part; or none."""
    if side == "none":
        return None
    padding = torch.zeros(2, keys, dtype=torch.bool, device=DEVICE)
    padding[0] = True
    padding[1, slice(None, keys // 3) if side == "left" else slice(-(keys // 3), None)] = True
    return padding


def assert_equal(got: Tensor, given: list[Tensor], wanted: Tensor, exact: list[Tensor], tolerance: float) -> None:
    """Compare outputs, and the gradients of all that is given, with those in fp64 by their greatest differences."""
    probe = torch.randn(got.shape, generator=torch.Generator().manual_seed(7)).to(got)
    found = torch.autograd.grad(got, given, probe)
    gradients = torch.autograd.grad(wanted, exact, probe.double())
    for number, (one, other) in enumerate(zip((got, *found), (wanted, *gradients), strict=True)):
        assert one.isfinite().all()
        gap, most = (one.double() - other).abs().max(), other.abs().max().clamp(min=1)
        assert gap <= tolerance * most, (number, gap, most)
