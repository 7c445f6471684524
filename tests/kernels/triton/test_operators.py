"""Where kernels of Triton run, the product of rows with a vector, and dropout inside of kernels."""

from __future__ import annotations

import pytest
import torch

from fairseq_localattn.kernels.triton import operators
from fairseq_localattn.kernels.triton.operators import draw_seed, reason_against_triton
from fairseq_localattn.kernels.triton.row_dot import row_dot
from support.kernels import DEVICE, needs_interpreter, needs_triton


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
