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
    torch.testing.assert_close(a, b, rtol=0, atol=0, msg=lambda said: f"{where}: {said}")


def assert_same_training(one: Path, other: Path) -> None:
    """Assert that two checkpoint files hold equal weights, optimizer states and numbers of updates."""
    a, b = checkpoint(one), checkpoint(other)
    for part in ("model", "last_optimizer_state"):
        assert_same(a[part], b[part], part)
    assert a["optimizer_history"][-1]["num_updates"] == b["optimizer_history"][-1]["num_updates"]
