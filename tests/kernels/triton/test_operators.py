"""Where kernels of Triton run, the product of rows with a vector, and dropout inside of kernels."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fairseq_localattn.core import flexible
from fairseq_localattn.grammar.build import attention
from fairseq_localattn.kernels.triton import operators
from fairseq_localattn.kernels.triton.operators import draw_seed, reason_against_triton
from fairseq_localattn.kernels.triton.row_dot import row_dot
from support.kernels import DEVICE, needs_interpreter, needs_triton, recorded
from support.mechanisms.implementations import compute_by
from support.mechanisms.inputs import future

DIM, HEADS = 16, 4


def test_where_kernels_run(monkeypatch: pytest.MonkeyPatch) -> None:
    here, q = torch.empty(1, 1, 5, 64), torch.empty(1, 1, 5, 64, device="meta")
    assert reason_against_triton(q) is None
    assert reason_against_triton(q.new_empty(q.shape, dtype=torch.bfloat16)) is None
    assert reason_against_triton(q.new_empty(q.shape, dtype=torch.float64)) == "it does not compute in float64"
    assert "more than 128 channels" in str(reason_against_triton(q.new_empty(1, 1, 5, 129)))
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert reason_against_triton(here) == "it does not run on the device cpu"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(operators, "is_installed", lambda: False)
    assert reason_against_triton(here) == "Triton is not installed"
    torch.use_deterministic_algorithms(True)
    try:
        assert "deterministic" in str(reason_against_triton(q))
    finally:
        torch.use_deterministic_algorithms(False)


@needs_triton
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_row_dot(dtype: torch.dtype) -> None:
    """The first layer's input is a view of B×T×C."""
    torch.manual_seed(0)
    for x in (torch.randn(9, 5, 150), torch.randn(5, 9, 150).transpose(0, 1)):
        given = [each.to(DEVICE, dtype).requires_grad_() for each in (x, torch.randn(150))]
        exact = [each.detach().double().requires_grad_() for each in given]
        probe = torch.randn(5, 9).to(DEVICE)
        got, wanted = row_dot(*given), (exact[0] @ exact[1]).T
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, wanted.float(), rtol=1e-5, atol=1e-5)
        found = torch.autograd.grad(got, given, probe)
        for one, other in zip(found, torch.autograd.grad(wanted, exact, probe.double()), strict=True):
            torch.testing.assert_close(one, other.to(dtype), rtol=1e-3 if dtype == torch.float16 else 1e-5, atol=1e-5)


@needs_interpreter
def test_dropout_does_not_depend_on_blocks() -> None:
    """Each head, query and key has a number of its own, and the rate is kept."""
    from support.kernels.dropout import draw

    torch.manual_seed(3)
    seed, found = draw_seed(torch.device("cpu")), []
    for block in (16, 64):
        found.append(torch.full((4, 64, 150), -1.0))
        draw[-(-150 // block), 4](found[-1], seed, 150, 0.3, BLOCK=block)
    assert torch.equal(*found)
    dropped = (found[0] == 0).double() - 0.3
    assert found[0][found[0] != 0].unique().numel() == 1
    pairs = dropped[1:] * dropped[:-1], dropped[:, 1:] * dropped[:, :-1], dropped[..., 1:] * dropped[..., :-1]
    for product, deviation in ((dropped, 0.21**0.5), *((pair, 0.21) for pair in pairs)):
        assert abs(product.mean()) < 4 * deviation / product.numel() ** 0.5
    torch.manual_seed(3)
    assert draw_seed(torch.device("cpu")) == seed and draw_seed(torch.device("cpu")) != seed


@needs_interpreter
@pytest.mark.parametrize("text", ["dman(max_distance=3)", "dman(max_distance=3) & rope", "2*dman + 2*global"])
@pytest.mark.parametrize("site", ["encoder", "decoder"])
def test_kernels_compute_what_the_steps_compute(text: str, site: str) -> None:
    """Also beside other mechanisms, for queries that see nothing, and not in calls that the kernels do not compute."""
    torch.manual_seed(3)
    module = attention(text, DIM, HEADS, site=site, self_attention=True).eval()
    x, padding = torch.randn(9, 3, DIM), torch.arange(9) < torch.tensor([0, 4, 9])[:, None]
    mask = future(9).float() if site == "decoder" else None

    def output(name: str, **options: Any) -> tuple[torch.Tensor, list[Any]]:
        compute_by(module, name)
        with recorded() as launches, torch.no_grad():
            return module(x, x, x, key_padding_mask=padding, **options)[0], launches

    wanted, none = output("sdpa", attn_mask=mask, need_weights=False)
    got, launches = output("triton", attn_mask=mask, need_weights=False)
    assert not none and "forward" in {each["kernel"] for each in launches}
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    other = torch.zeros(9, 9).masked_fill(torch.ones(9, 9, dtype=torch.bool).triu(3), -torch.inf)
    for options in ({"need_weights": True, "attn_mask": mask}, {"need_weights": False, "attn_mask": other}):
        assert not output("triton", **options)[1]


@needs_interpreter
def test_a_layer_with_a_hook_is_called() -> None:
    module = attention("dman", DIM, HEADS, site="encoder", self_attention=True).eval()
    x = torch.randn(6, 2, DIM)
    found: dict[str, torch.Tensor] = {}
    module.get_submodule("query_mask").register_forward_hook(lambda layer, inputs, output: output * 2)
    for name in ("sdpa", "triton"):
        compute_by(module, name)
        found[name] = module(x, x, x, need_weights=False)[0]
    torch.testing.assert_close(found["triton"], found["sdpa"], rtol=1e-4, atol=1e-5)


@needs_triton
def test_the_log_says_where_they_do_not_run(caplog: pytest.LogCaptureFixture) -> None:
    flexible._log_once.cache_clear()
    module = attention("dman", DIM, HEADS, site="encoder", self_attention=True).double().to(DEVICE)
    compute_by(module, "triton")
    x = torch.randn(5, 2, DIM, dtype=torch.double, device=DEVICE)
    with caplog.at_level("INFO"):
        module(x, x, x, need_weights=False)
    assert "--localattn-attention triton: it does not compute in float64, so sdpa computes such calls" in caplog.text
