"""Checkpoints: of two trainings, compared to the bit; and one that holds code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch


class Payload:
    """An object that creates the file ``canary`` when it is unpickled without protection."""

    def __reduce__(self) -> Any:
        return os.system, ("touch canary",)


def checkpoint(path: Path) -> dict[str, Any]:
    return torch.load(path, weights_only=True)


def assert_same(a: Any, b: Any, where: str = "") -> None:
    """Assert that two checkpoints, or parts of them, are equal to the bit."""
    if isinstance(a, torch.Tensor):
        assert torch.equal(a, b), where
    elif isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for n, (x, y) in enumerate(zip(a, b, strict=True)):
            assert_same(x, y, f"{where}[{n}]")
    else:
        assert a == b, where


def assert_same_training(one: Path, other: Path) -> None:
    """Assert that two checkpoint files hold equal weights, optimizer states and numbers of updates."""
    a, b = checkpoint(one), checkpoint(other)
    assert_same(a["model"], b["model"], "model")
    assert_same(a["last_optimizer_state"], b["last_optimizer_state"], "optimizer")
    assert a["optimizer_history"][-1]["num_updates"] == b["optimizer_history"][-1]["num_updates"]
