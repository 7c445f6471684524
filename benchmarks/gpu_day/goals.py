"""Goals of the training step on GPUs: efficiency against fairseq's own Transformer, by the names of systems.py."""

from __future__ import annotations

from collections.abc import Mapping

_GPU_STEP = {
    "mma": 1.15,
    "csan_1d": 1.15,
    "csan_2d": 1.10,
    "diffwin": 1.10,
    "mgsa_ngram": 1.05,
    "mgsa_syntactic": 1.05,
    "man_encoder": 1.15,
    "man": 1.15,
}


def goal_of(row: Mapping[str, str]) -> float | None:
    """Return the goal for a row of the table ``step``; None without one, on CPUs, and for small models."""
    return _GPU_STEP.get(row["system"]) if (row["device"], row["size"]) == ("cuda", "base") else None
