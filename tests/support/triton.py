"""Triton in tests: kernels run by its interpreter where no GPU is, and compiled where one is."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

without_triton = importlib.util.find_spec("triton") is None
needs_triton = pytest.mark.skipif(without_triton, reason="Triton is not installed")
#: Where kernels run in this process; conftest.py asks for the interpreter.
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def ask_for_the_interpreter() -> None:
    """Let Triton interpret its kernels, unless there is a GPU; only before it is imported."""
    if not torch.cuda.is_available():
        os.environ.setdefault("TRITON_INTERPRET", "1")
