"""Differentiable windows (DiffWin) beside the equations: the papers' figures, precision, and segments that are kept."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fairseq_localattn.core.call import Call
from fairseq_localattn.kernels.masks import Frame
from fairseq_localattn.mechanisms.windowed import AdditiveWindowAttention
from support.mechanisms.inputs import DIM, HEADS, make, random_case, run
from support.mechanisms.references import window_mask


def one_hot(position: int, length: int) -> Tensor:
    """Return φ_k of Eq. 4; positions count from 1."""
    return torch.eye(length, dtype=torch.float64)[position - 1]


def test_the_reference_gives_the_papers_figures() -> None:
    """Figure 1: l = 3, r = 8 among 10 keys give keys 3 to 8, also exchanged (Eq. 9). Figure 2: segments of b = 2."""
    wanted = torch.tensor([0, 0, 1, 1, 1, 1, 1, 1, 0, 0], dtype=torch.float64)
    assert torch.equal(window_mask(one_hot(3, 10), one_hot(8, 10), 1), wanted)
    assert torch.equal(window_mask(one_hot(8, 10), one_hot(3, 10), 1), wanted)
    a = torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25], dtype=torch.float64)
    to_the_end = torch.tensor([0.3, 0.3, 0.75, 0.75, 1.0], dtype=torch.float64)  # φ J
    from_the_start = torch.tensor([1.0, 1.0, 0.7, 0.7, 0.25], dtype=torch.float64)  # φ Jᵀ
    first, last = one_hot(1, 5), one_hot(5, 5)
    torch.testing.assert_close(window_mask(first, a, 2), from_the_start + torch.tensor([0.3, 0.3, 0, 0, 0]))
    torch.testing.assert_close(window_mask(a, last, 2), to_the_end + torch.tensor([0, 0, 0, 0, a[4]]))


def reweighted(text: str, sharpness: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the weights of a query with both pointers at the first of ten keys, and attention at the last."""
    pointer, scores = torch.zeros(2, 1, HEADS, 1, 10, dtype=dtype)
    pointer[..., 0], scores[..., -1] = sharpness, sharpness
    module = make(text)
    module.pointer_scores = lambda extra: torch.stack([pointer, pointer])
    return module.reweight(scores.softmax(-1), Call(Frame(1, 10), scores, q=scores, k=scores, v=scores))


def test_a_small_mask_keeps_its_relative_precision() -> None:
    """Renormalised, fp32 is near fp64."""
    found, wanted = (reweighted("mw(renormalise=true)", 18, dtype) for dtype in (torch.float32, torch.float64))
    assert wanted[..., 1:].max() > 1e-3, "nothing small is left to compare"
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=0)


@pytest.mark.parametrize("text", ["mw", "mw(renormalise=true)"])
def test_a_mask_that_closes_what_is_attended_to_stays_finite(text: str) -> None:
    """The window there is 0, to rounding."""
    found = reweighted(text, 1000)
    assert found.isfinite().all() and (found.abs() < 1e-5).all()


@pytest.mark.parametrize(("dtype", "size"), [(torch.float16, 1), (torch.bfloat16, 3)])
def test_the_soft_mask_is_computed_in_fp32(size: int, dtype: torch.dtype) -> None:
    """A flat pointer over 300 keys: running sums in half precision would stand still."""
    module = AdditiveWindowAttention(DIM, HEADS, segment_size=size)
    mask = module.soft_mask(Frame(1, 300), torch.zeros(2, 1, HEADS, 1, 300, dtype=dtype))
    assert mask.dtype == torch.float32
    wanted = window_mask(torch.full((300,), 1 / 300).double(), torch.full((300,), 1 / 300).double(), size)
    torch.testing.assert_close(mask[0, 0, 0].double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kdim", [DIM, 3 * DIM])
def test_projections_begin_like_those_of_queries_and_keys(kdim: int) -> None:
    """Xavier's bounds, with fairseq's gain of 1/√2 where all channels are the same."""
    torch.manual_seed(1)
    module = AdditiveWindowAttention(DIM, HEADS, kdim=kdim, vdim=kdim, encoder_decoder_attention=True)
    for name, parameter in module.named_parameters():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            gain = 2**-0.5 if kdim == DIM else 1
            bound = gain * (6 / sum(parameter.shape)) ** 0.5
            assert 0.9 * bound < parameter.abs().max() <= bound, name


def test_segments_are_those_of_the_batch_at_hand() -> None:
    """Cached segments are not used for a batch with another padding, or with none."""
    module, (x, _) = make("aw(segment_size=3)", "cross").double(), random_case([2] * 2, left=True, seed=3)

    def compare(keys: Tensor, padding: Tensor) -> None:
        fresh = make("aw(segment_size=3)", "cross").double()
        torch.testing.assert_close(run(module, x, keys, padding)[0], run(fresh, x, keys, padding)[0])

    for lengths in ([8, 5], [8, 5], [8, 4], [8, 8], [5, 8], [6, 5], [8, 5]):
        keys, padding = random_case(lengths, left=True)
        compare(keys, padding)
    padding[0, :2] = True  # the same tensor, another batch
    compare(keys, padding)
