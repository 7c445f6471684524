"""``auto`` on a GPU: which implementation is taken, and when it is tried."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.core import flexible, trial
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.core.call import Call
from fairseq_localattn.kernels.masks import Frame
from fairseq_localattn.mechanisms.masked import DynamicMaskAttention
from support.mechanisms.inputs import DIM, compute_by, make


def padding(length: int) -> Tensor:
    """Return padding before the words of the second of two sentences."""
    return torch.arange(length) < torch.tensor([0, length // 3])[:, None]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that lets ``auto`` try FlexAttention here, and a kernel of DMAN, with a fake timer.

    Without a backward pass on a CPU, the trial's gradients are those of a reference times a factor.
    """
    monkeypatch.setattr(flexible, "TRIED_ON", ("cpu",))
    monkeypatch.setattr(flexible, "TRIED_FROM", 8)
    monkeypatch.setattr(trial, "_chosen", {})
    monkeypatch.setattr(flexible, "reason_against_flex", lambda q, k, dropout: "dropout" if dropout else None)

    def start(
        *times: float, factor: float | None = 1.0, error: Exception | None = None, kernel: float | None = None
    ) -> None:
        told = list(times)

        def milliseconds(call: Callable[[], object]) -> float:
            call()
            return told.pop(0)

        def by_flex(self: LocalAttention, call: Call) -> Tensor | None:
            if error is not None:
                raise error
            return None if factor is None else self.attend(call, need_weights=False)[0] * factor

        def by_kernel(self: LocalAttention, call: Call) -> Tensor:
            return self.attend(call, need_weights=False)[0] * (kernel or 1.0)

        monkeypatch.setattr(flexible, "reason_against_triton", lambda q: None if kernel else "no kernel")
        monkeypatch.setattr(DynamicMaskAttention, "attend_by_kernel", by_kernel)
        monkeypatch.setattr(flexible, "by_flex", by_flex)
        monkeypatch.setattr(trial, "milliseconds", milliseconds)

    return start


def run(module: LocalAttention, length: int) -> None:
    x = torch.randn(length, 2, DIM, requires_grad=True)
    module(x, x, x, key_padding_mask=padding(length), need_weights=False)[0].sum().backward()


@pytest.mark.parametrize(("times", "chosen"), [((2.0, 1.0), "flex"), ((1.0, 2.0), "sdpa")])
def test_auto_keeps_the_faster(
    times: tuple[float, float], chosen: str, tried: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Timed once for lengths up to the same power of two and equal mechanisms, and named in the log."""
    tried(*times)
    module = make("dman").train()
    with caplog.at_level(logging.INFO):
        for other, length in ((module, 9), (module, 16), (make("dman").train(), 13)):
            run(other, length)
    (said,) = (r.message for r in caplog.records if r.name == trial.__name__)
    assert f": {chosen} (sdpa {times[0]:.2f} ms, flex {times[1]:.2f} ms)" in said
    assert list(trial._chosen.values()) == [chosen]
    tried(1.0, 2.0, 2.0, 1.0)
    run(module, 17)
    run(make("t5").train(), 9)
    assert list(trial._chosen.values()) == [chosen, "sdpa", "flex"]


def test_a_trial_leaves_gradients_alone(tried: Any) -> None:
    tried(1.0, 2.0)
    module, plain = make("dman").train(), make("dman").train()
    compute_by(plain, "sdpa")
    for each in (module, plain):
        torch.manual_seed(1)
        run(each, 9)
    assert trial._chosen
    found, expected = ([parameter.grad for parameter in each.parameters()] for each in (module, plain))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_auto_does_not_try_what_is_short_or_no_training_or_not_possible(tried: Any) -> None:
    tried(kernel=1.0)  # which is another mechanism's
    module = make("local(window=2)")
    x = torch.randn(20, 2, DIM)
    with torch.no_grad():
        module(x, x, x, need_weights=False)
    run(module, 7)
    run(make("local(window=2)", dropout=0.1).train(), 20)
    compute_by(module, "sdpa")
    run(module, 20)
    assert not trial._chosen


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"factor": 1.5}, "flex not taken: its result differs by 50.0%"),
        ({"factor": float("nan")}, "flex not taken: its result differs by nan%"),
        ({"factor": None}, ""),  # not defined: nothing is compared
        ({"error": RuntimeError("no kernel image\nmore lines")}, "flex not taken: RuntimeError: no kernel image"),
    ],
)
def test_auto_does_not_take_what_fails_or_computes_something_else(
    wrong: dict[str, Any], message: str, tried: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tried(**wrong)  # the clock has no times to tell
    with caplog.at_level(logging.INFO):
        run(make("dman").train(), 9)
    assert list(trial._chosen.values()) == ["sdpa"] and message in caplog.text


@pytest.mark.parametrize(
    ("factor", "chosen", "said"),
    [
        (1.0, "triton", "triton (sdpa 2.00 ms, triton 1.00 ms"),
        (1.5, "sdpa", "triton not taken: its result differs by 50"),
    ],
)
def test_a_kernel_is_tried_with_dropout_and_compared_without(
    factor: float, chosen: str, said: str, tried: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Also for short texts, which FlexAttention is not tried on; the state of random numbers stays as it was."""
    tried(*([2.0, 1.0] if factor == 1 else []), kernel=factor)
    module, x = make("dman", dropout=0.3).train(), torch.randn(6, 2, DIM, requires_grad=True)
    call = Call(Frame(6, 6, key_padding_mask=padding(6)), x, *module.project(x, x, x))
    before = torch.get_rng_state()
    with caplog.at_level(logging.INFO):
        assert (flexible.chosen_way(module, call) is None) == (chosen == "sdpa")
    assert torch.equal(torch.get_rng_state(), before)
    assert list(trial._chosen.values()) == [chosen] and module.training
    assert said in caplog.text
