"""Joint projections: values and gradients against single ones; weights laid out for few rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from fairseq_localattn.kernels.projections import BLOCK, in_blocks, linear_by_blocks, project_at_once, project_jointly


@pytest.mark.parametrize("project", [project_jointly, project_at_once])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("frozen", [None, "weight", "bias", "input"])
def test_joint_projections_have_the_gradients_of_single_ones(
    project: Callable[..., Sequence[Tensor]], bias: bool, frozen: str | None
) -> None:
    projections = [nn.Linear(6, 8, bias=bias).double() for _ in range(3)]
    x = torch.randn(4, 3, 6, dtype=torch.double, requires_grad=frozen != "input")
    if frozen in ("weight", "bias") and (bias or frozen == "weight"):
        getattr(projections[1], frozen).requires_grad_(False)
    parameters = [p for each in projections for p in each.parameters() if p.requires_grad]
    wanted = [each(x).unflatten(-1, (2, 4)) for each in projections]
    factors = [torch.randn_like(y) for y in wanted]
    inputs = [*parameters, x] if x.requires_grad else parameters
    expected = torch.autograd.grad(wanted, inputs, factors)
    got = project(x, projections, 2)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(torch.autograd.grad(got, inputs, factors), expected, strict=True):
        torch.testing.assert_close(one, other)
    # An unused output has a gradient of 0.
    (by_unused,) = torch.autograd.grad(project(x, projections, 2)[0].sum(), [projections[2].weight])
    assert (by_unused == 0).all()


@pytest.mark.parametrize("outputs", [40, 2 * BLOCK, 2 * BLOCK + 7])
def test_a_weight_in_blocks(outputs: int) -> None:
    weight, x = torch.randn(outputs, 24), torch.randn(5, 24)
    blocks = in_blocks(weight)
    assert torch.equal(torch.cat(blocks), weight)
    assert all(block.stride(0) == 1 and block.stride(1) * block.element_size() % 4096 for block in blocks)
    torch.testing.assert_close(linear_by_blocks(x, blocks), x @ weight.T)
