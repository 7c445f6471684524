"""Operations that start a kernel on a GPU, and waits for it: how they are counted, and how many there may be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks import command
from benchmarks.gpu_day.page import read_csv
from benchmarks.launches import META, Launches, count_step, counted, settings_of_count
from benchmarks.systems import PLAIN, SYSTEMS

SETTINGS = settings_of_count()
# The most operations of a step, as a share of those of fairseq's own model with its own Adam.
STEPS = {
    "transformer_localattn_adam": 0.28, "mma": 0.22, "csan_1d": 0.22, "csan_2d": 0.24, "rope": 0.25, "alibi": 0.21,
    "t5bias": 0.24, "man": 0.29, "diffwin": 0.21, "relpos": 0.29, "mgsa_ngram": 0.25, "mgsa_syntactic": 0.38,
}  # fmt: skip
UPDATE = 12  # the most operations of norm, optimizer and zeroing


@pytest.fixture(scope="module")
def fairseqs() -> int:
    return sum(part.total for part in count_step(SYSTEMS[PLAIN], SETTINGS).values())


@pytest.mark.parametrize("name", STEPS)
def test_a_step_takes_few_operations(name: str, fairseqs: int) -> None:
    parts = count_step(SYSTEMS[name], SETTINGS)
    assert parts["optimizer"].total <= UPDATE, parts["optimizer"].operations
    assert sum(part.total for part in parts.values()) <= STEPS[name] * fairseqs
    if not name.startswith(PLAIN):  # fairseq's own layers ask whether there is padding
        assert not waits(parts)


def waits(parts: dict[str, Launches]) -> Counter[str]:
    """Return the waits of a step, by place."""
    return sum((part.syncs for part in parts.values()), Counter())


def test_the_table(tmp_path: Path) -> None:
    flags = ["--parts", "launches", "--device", "cpu", "--size", "tiny", "--systems", "mma,alibi"]
    assert command.main([*flags, "--out", str(tmp_path)]) == 0
    rows = read_csv(tmp_path / "launches_meta_bf16.csv")
    assert [row["system"] for row in rows] == [PLAIN, "mma", "alibi", "fairseq", "mma", "alibi"]
    assert [float(row["share"]) < 1 for row in rows[:3]] == [False, True, True]
    for row in rows[:3]:
        parts = sum(int(row[part]) for part in ("forward", "backward", "optimizer"))
        assert parts == int(row["operations"])
        assert (float(row["share"]) < 1) is (float(row["predicted_ratio"]) > 1)


@torch.library.custom_op("localattn_tests::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return (x + x).clone()


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return (x + x).clone()


X = torch.ones(4, 6, device=META)
Q = torch.ones(2, 3, 5, 8, device=META, requires_grad=True)
SDPA = "_scaled_dot_product_efficient_attention"
ATTENTION = {SDPA: 1, f"{SDPA}_backward": 1, "sum": 1, "ones_like": 1, "add": 2, "copy_": 1}


@pytest.mark.parametrize(
    ("call", "operations"),
    [
        (lambda: X.t().unsqueeze(0)[0].detach(), {}),
        (lambda: torch.empty_like(X).zero_(), {"zero_": 1}),
        (lambda: torch.ones(3) + 1, {}),
        (lambda: torch.arange(3, device=META), {"arange": 1}),
        (lambda: twice(X), {"twice": 1}),
        (lambda: torch.ones(3).to(META, non_blocking=True), {"_to_copy": 1}),
        (lambda: nn.Dropout(0.1)(X), {"native_dropout": 1}),
        (lambda: F.layer_norm(X, (6,)), {"native_layer_norm": 1}),
        (lambda: F.scaled_dot_product_attention(Q, Q, Q).sum().backward(), ATTENTION),
    ],
    ids="views allocation cpu factory custom copy dropout norm attention".split(),
)
def test_what_starts_a_kernel(call: Callable[[], object], operations: dict[str, int]) -> None:
    with counted() as found:
        call()
    assert (found.operations, found.syncs) == (operations, {})


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.any().item(),
        lambda: bool(X.any()),
        lambda: X.cpu().numpy(),
        lambda: torch.ones(3).to(META),
        lambda: torch.tensor([1, 2], device=META),
        lambda: X[torch.tensor([1, 2])],
    ],
    ids="item bool cpu to tensor index".split(),
)
def test_what_waits(call: Callable[[], object]) -> None:
    """Each wait is named by its line, here that of the lambda."""
    with counted() as found:
        call()
    assert found.syncs.total() == 1
    assert next(iter(found.syncs)).startswith("tests/benchmarks/test_launches.py:")
