"""localattn_adam equals fairseq's Adam in every precision, takes few operations, and continues its checkpoints."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import optim
from fairseq.optim import fp16_optimizer
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_localattn.optim.adam import NAME, Adam
from support import forked
from support.checkpoints import checkpoint
from support.cli import USER_DIR, make_data, train_flags

CLIP = 0.5
PRECISIONS = {
    "fp32": {},
    "bf16": {"bf16": True},
    "fp16": {"fp16": True, "fp16_no_flatten_grads": True},
    "memory-efficient bf16": {"bf16": True, "memory_efficient_bf16": True},
    "memory-efficient fp16": {"fp16": True, "memory_efficient_fp16": True},
    "fp16 in one tensor": {"fp16": True},
    "amp": {"amp": True},
}


@pytest.fixture(autouse=True)
def fairseqs_calls_of_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``--fp16`` and ``--amp`` do on a CPU what they do on a GPU."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)  # the index of a CPU
    monkeypatch.setattr(torch.cuda.amp, "GradScaler", partial(torch.amp.GradScaler, "cpu"))


def configuration(name: str, precision: dict[str, bool]) -> DictConfig:
    common = {"fp16_init_scale": 4, "fp16_scale_window": 10, "fp16_scale_tolerance": 0.0, "threshold_loss_scale": None}
    adam = {"_name": name, "adam_betas": [0.9, 0.98], "adam_eps": 1e-4, "weight_decay": 0.01, "lr": [0.01]}
    rest = {"use_old_adam": False, "fp16_adam_stats": False, "tpu": False}
    return OmegaConf.create({"common": {**common, "min_loss_scale": 1e-4, **precision}, "optimizer": {**adam, **rest}})


def build(name: str, precision: dict[str, bool], parameters: list[nn.Parameter]) -> Any:
    """Return an optimizer as fairseq's trainer builds it."""
    cfg = configuration(name, precision)
    if any(key.startswith("memory_efficient") for key in precision):
        return optim.MemoryEfficientFP16Optimizer.build_optimizer(cfg, parameters)
    if "amp" in precision:
        return optim.AMPOptimizer.build_optimizer(cfg, parameters)
    if precision:
        return optim.FP16Optimizer.build_optimizer(cfg, parameters)
    return optim.build_optimizer(cfg.optimizer, parameters)


def masters_of(optimizer: Any) -> list[Tensor]:
    """Return the parameters in fp32 of an optimizer of parameters in half precision."""
    found = getattr(optimizer, "fp32_params", [])
    return list(found.values() if isinstance(found, dict) else found)


def parameters_of(precision: dict[str, bool]) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    dtype = torch.bfloat16 if "bf16" in precision else torch.float16 if "fp16" in precision else torch.float32
    shapes = [(3, 5), (7,), (2, 3, 4), (1,), (6, 2)]
    return [nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in shapes]


def update(optimizer: Any, parameters: list[nn.Parameter], number: int) -> Tensor:
    """Make one update as fairseq's trainer does; return the norm of the gradients. One parameter is used rarely."""
    generator = torch.Generator().manual_seed(number)
    used = parameters if number % 3 else parameters[:-1]
    loss = sum((torch.randn(each.shape, generator=generator).to(each) * each).sum() for each in used)
    optimizer.backward(loss)
    optimizer.multiply_grads(1 / 7)
    norm = optimizer.clip_grad_norm(CLIP)
    optimizer.step()
    optimizer.zero_grad()
    return norm


@pytest.mark.parametrize("precision", PRECISIONS.values(), ids=PRECISIONS)
def test_it_equals_fairseqs_adam_after_100_updates(precision: dict[str, bool]) -> None:
    ours, theirs = parameters_of(precision), parameters_of(precision)
    one, other = build(NAME, precision, ours), build("adam", precision, theirs)
    for number in range(100):
        torch.testing.assert_close(update(one, ours, number), update(other, theirs, number), rtol=1e-4, atol=1e-6)
    masters = [masters_of(each) or list(p) for each, p in ((one, ours), (other, theirs))]
    # Without masters in fp32 each update rounds, and fairseq also rounds the gradients that it scales.
    rounding = 4 * torch.finfo(masters[0][0].dtype).eps
    torch.testing.assert_close(*masters, rtol=0, atol=max(1e-5, rounding))
    torch.testing.assert_close(
        one.state_dict(), other.state_dict(), rtol=max(1e-4, rounding), atol=max(1e-6, rounding / 100)
    )


@pytest.mark.parametrize("precision", PRECISIONS.values(), ids=PRECISIONS)
@pytest.mark.parametrize("names", [(NAME, "adam"), ("adam", NAME)], ids=["then fairseq's", "after fairseq's"])
def test_one_continues_the_state_of_the_other(names: tuple[str, str], precision: dict[str, bool]) -> None:
    kept, moved = parameters_of(precision), parameters_of(precision)
    one = build(names[0], precision, kept)
    for number in range(3):
        update(one, kept, number)
    for before, after in zip(kept, moved, strict=True):
        after.data.copy_(before)
    other = build(names[1], precision, moved)
    assert type(other).__name__ == type(one).__name__  # which fairseq compares when it resumes
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    for mine, master in zip(masters_of(one), masters_of(other), strict=True):
        master.data.copy_(mine)  # as where training is not interrupted; fairseq rounds them in a checkpoint
    for number in range(3, 6):
        update(one, kept, number)
        update(other, moved, number)
    torch.testing.assert_close(moved, kept)


class Operations(TorchDispatchMode):
    """Counts operations that launch a kernel on a GPU."""

    without = ("detach", "empty_like", "split", "_local_scalar_dense")

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "aten" and not func.is_view and func.overloadpacket.__name__ not in self.without:
            self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", PRECISIONS.values(), ids=PRECISIONS)
def test_an_update_takes_few_operations(precision: dict[str, bool]) -> None:
    parameters = parameters_of(precision)
    optimizer = build(NAME, precision, parameters)
    for _ in range(2):  # the first makes the states
        loss = sum(each.sum() for each in parameters)
        optimizer.backward(loss)
        with Operations() as counted:
            optimizer.multiply_grads(1 / 7)
            optimizer.clip_grad_norm(0.0)
            optimizer.step()
            optimizer.zero_grad()
    most = 27 if "amp" in precision else 12  # torch's scaler of losses takes 20
    assert len(counted.names) <= most, counted.names


def test_gradients_of_another_layout() -> None:
    plain, turned = (nn.Parameter(torch.ones(3, 5)) for _ in range(2))
    plain.grad = torch.arange(15.0).view(3, 5)
    turned.grad = plain.grad.t().contiguous().t()
    for parameter in (plain, turned):
        Adam([parameter], lr=0.1, eps=1.0).step()
    assert torch.equal(plain, turned)


def test_elsewhere_fairseqs_optimizer_stays() -> None:
    built = build("adam", {"bf16": True}, parameters_of({"bf16": True}))
    assert type(built) is fp16_optimizer.FP16Optimizer


@pytest.mark.slow
@pytest.mark.parametrize("precision", [{}, {"bf16": True}], ids=str)
def test_a_training_of_two_processes(precision: dict[str, bool], tmp_path: Path) -> None:
    """Both optimizers sum gradients over the processes, and clip them by the norm of the sum."""
    data = make_data(tmp_path / "data", train=60)
    found = {}
    for optimizer in (NAME, "adam"):
        folder = tmp_path / optimizer
        flags = {"optimizer": optimizer, "clip_norm": 0.5, "dropout": 0, "user_dir": USER_DIR, **precision}
        words = train_flags(data, "transformer_mma_tiny", folder, 6, **flags)
        with forked.two_processes(*words, cwd=tmp_path) as both:
            assert [each.wait().returncode for each in both] == [0, 0]
        found[optimizer] = checkpoint(folder / "checkpoint_last.pt")["last_optimizer_state"]
    assert found[NAME]["state"][0]["step"] == 6
    torch.testing.assert_close(found[NAME], found["adam"], rtol=1e-3, atol=1e-6)
