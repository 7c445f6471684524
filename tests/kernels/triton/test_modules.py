"""Attention by the kernels of Triton: the equations, what is left to the steps, memory, launches, compilation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from benchmarks.launches import counted
from fairseq_localattn.core import flexible
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.kernels.triton import soft_windows
from support.kernels import DEVICE, SHARED_MEMORY, compile_launches, needs_interpreter, needs_triton, recorded
from support.mechanisms.inputs import LargestTensor, assert_same, compute_by, future, make, outcome, random_case, run
from support.mechanisms.references import expected

DIM = 24
pytestmark = needs_triton
# Text, site, the most launches of a pass both ways.
MODULES = [("dman", "encoder", 30), ("dman", "decoder", 30), ("aw", "encoder", 27), ("mw", "decoder", 27)]
MODULES += [("aw(segment_size=5)", "cross", 27)]


@needs_interpreter
@pytest.mark.parametrize(
    ("text", "site", "left"),
    [
        ("dman(max_distance=3)", "encoder", False),
        ("dman(max_distance=3)", "decoder", True),
        ("dman(max_distance=3) & rope", "encoder", True),
        ("1*dman + 1*global", "decoder", False),
        ("aw", "encoder", True),
        ("mw", "decoder", True),
        ("aw(segment_size=5)", "cross", False),
    ],
)
def test_equals_equations(text: str, site: str, left: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where distances are clipped, over two blocks, and for queries that see nothing."""
    monkeypatch.setattr(soft_windows, "BLOCK", 16)
    module, causal = make(text, site, DIM, 2).train(), site == "decoder"
    compute_by(module, "triton")
    x, padding = random_case([17, 4, 0], left, channels=DIM)
    x = x.float()
    memory = x.flip(0) if site == "cross" else x
    with recorded() as launches:
        got = outcome(module, x, memory, lambda x, y: run(module, x, y, padding, causal)[0])
    assert {"forward", "backward"} <= {each["kernel"] for each in launches}
    module.double()
    x = x.double()
    memory = memory.double() if site == "cross" else x
    wanted = outcome(module, x, memory, lambda x, y: expected(module, x, y, padding, causal)[0])
    assert_same(got, {name: value.float() for name, value in wanted.items()}, rtol=1e-3, atol=1e-4)


@needs_interpreter
@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("dman", {"need_weights": True}),
        ("dman", {"attn_mask": torch.zeros(17, 17).masked_fill(torch.ones(17, 17).triu(3) > 0, -torch.inf)}),
        ("aw", {"attn_mask": torch.eye(17)}),
        ("aw(segment_size=17)", {}),
        ("mw(renormalise=true)", {}),
    ],
)
def test_what_the_kernels_do_not_compute_is_left_to_the_steps(
    text: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soft_windows, "BLOCK", 16)
    module, x, found = make(text, "encoder", DIM).train(), torch.randn(17, 1, DIM), []
    with recorded() as launches:
        for name in ("triton", "sdpa"):
            compute_by(module, name)
            found.append(module(x, x, x, **{"need_weights": False, **options})[0])
    assert "forward" not in {each["kernel"] for each in launches}
    torch.testing.assert_close(*found)


@needs_interpreter
def test_a_layer_with_a_hook_is_called() -> None:
    module = make("dman", "encoder", DIM)
    x = torch.randn(6, 2, DIM)
    found: dict[str, torch.Tensor] = {}
    module.get_submodule("query_mask").register_forward_hook(lambda layer, inputs, output: output * 2)
    for name in ("sdpa", "triton"):
        compute_by(module, name)
        found[name] = module(x, x, x, need_weights=False)[0]
    torch.testing.assert_close(found["triton"], found["sdpa"], rtol=1e-4, atol=1e-5)


def test_the_log_says_where_they_do_not_run(caplog: pytest.LogCaptureFixture) -> None:
    flexible._log_once.cache_clear()
    module = make("dman", "encoder", DIM).double().to(DEVICE)
    compute_by(module, "triton")
    x = torch.randn(5, 2, DIM, dtype=torch.double, device=DEVICE)
    with caplog.at_level("INFO"):
        module(x, x, x, need_weights=False)
    assert "--localattn-attention triton: it does not compute in float64, so sdpa computes such calls" in caplog.text


def pass_of(module: LocalAttention, length: int, device: str, dtype: torch.dtype) -> Callable[[], None]:
    """Return both passes of a module by the kernels, over three sentences with padding."""
    compute_by(module, "triton")
    module = module.to(device, dtype).train()
    x, y = (torch.randn(length, 3, module.embed_dim).to(device, dtype).requires_grad_() for _ in range(2))
    memory = x if module.self_attention else y
    mask = future(length).to(device, dtype) if module.causal else None
    options = {"key_padding_mask": torch.zeros(3, length, device=device, dtype=torch.bool), "attn_mask": mask}
    return lambda: module(x, memory, memory, need_weights=False, **options)[0].backward(torch.empty_like(x))


@pytest.mark.parametrize(("text", "site", "most"), MODULES)
def test_memory_and_launches_of_an_attention(text: str, site: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its projections, both ways, on the device meta; the causal mask was read by an earlier layer."""
    for name in ("masked", "windowed"):
        monkeypatch.setattr(f"fairseq_localattn.mechanisms.{name}.is_future", lambda mask: True)
    length, joint = 1024, 9 * DIM  # channels of q, k, v, and of a query and a key for each pointer and the local scores
    both = pass_of(make(text, site, DIM, dropout=0.1), length, "meta", torch.bfloat16)
    with LargestTensor() as largest, counted() as found:
        both()
    assert 0 < largest.size <= 3 * joint * length < length**2 * 3
    assert found.total <= most and not found.syncs, found.operations
    kernel = "dman" if text == "dman" else "soft_window"
    assert found.operations[kernel] == found.operations[f"{kernel}_backward"] == 1


@pytest.mark.slow
@needs_interpreter
@pytest.mark.parametrize(
    ("text", "site", "length", "dtype"),
    [
        ("dman", "decoder", 70, torch.bfloat16),
        ("dman", "encoder", 30, torch.float16),
        ("dman", "encoder", 40, torch.float32),
        ("aw", "encoder", 40, torch.bfloat16),
        ("mw", "decoder", 40, torch.bfloat16),
        ("aw(segment_size=5)", "cross", 30, torch.float16),
        ("aw(segment_size=5)", "cross", 40, torch.float32),
    ],
)
def test_kernels_compile_for_a_gpu(text: str, site: str, length: int, dtype: torch.dtype) -> None:
    """The compiler, which is stricter than the interpreter, takes them; each fits into every GPU since sm_80."""
    module = make(text, site, 128, 2, dropout=0.1 if dtype != torch.float16 else 0.0)
    both = pass_of(module, length, "cpu", dtype)
    with recorded(run=False) as launches:
        both()
    own = [each for each in launches if "row_dot" not in each["module"]]
    assert [each["kernel"] for each in own] == ["forward", "backward", "collect"][: 3 if text == "dman" else 2]
    for launch, found in zip(launches, compile_launches(launches), strict=True):
        most = 100 if text == "dman" else 400  # of registers that are spilt
        assert found["shared"] <= SHARED_MEMORY and found["stack"] <= most, (launch, found)
