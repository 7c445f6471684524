"""How masks are combined."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fairseq_localattn.kernels import masks
from fairseq_localattn.kernels.masks import Frame, future_mask, hidden_and_bias, is_future, join_masks, lowest_score
from fairseq_localattn.mechanisms.gaussian import CUT_OFF


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_mask_that_only_hides_is_taken_as_boolean(dtype: torch.dtype) -> None:
    causal = torch.full((3, 3), -torch.inf).triu(1)
    hidden, bias = hidden_and_bias(Frame(3, 3, attn_mask=causal), None, None, dtype)
    assert bias is None and hidden is not None and torch.equal(hidden, causal.isinf())
    learned = nn.Parameter(causal.clone())  # not trained yet
    _, bias = hidden_and_bias(Frame(3, 3, attn_mask=learned), None, None, dtype)
    assert bias is not None and bias.requires_grad
    slopes = causal - torch.arange(3.0)  # as in ALiBi
    hidden, bias = hidden_and_bias(Frame(3, 3, attn_mask=slopes), None, None, dtype)
    assert hidden is None and bias is not None and torch.equal(bias.isfinite(), torch.ones(3, 3).bool())
    assert torch.equal(bias[2], -torch.arange(3.0)) and (bias[0, 1:] <= lowest_score(dtype)).all()


FAR_BELOW = torch.tensor([-1e6, -1e6 - 1, -1e6])  # what half precision cannot hold
IN_FP16 = torch.tensor([0.5, 1.5, lowest_score(torch.float16)], dtype=torch.float16)  # as where weights are asked for
LAST = torch.tensor([False, False, True])


@pytest.mark.parametrize(
    ("hidden", "bias", "dtype", "wanted"),
    [
        *((LAST, FAR_BELOW, dtype, [0.7311, 0.2689, 0.0]) for dtype in (torch.float16, torch.bfloat16, torch.float32)),
        (None, IN_FP16, torch.float32, [0.2689, 0.7311, 0.0]),
    ],
)
def test_hidden_keys_stay_below_visible_ones_whatever_the_bias(
    hidden: Tensor | None, bias: Tensor, dtype: torch.dtype, wanted: list[float]
) -> None:
    mask = join_masks(hidden if hidden is None else hidden[None, None, None], bias[None, None, None], dtype)
    assert mask is not None and mask.dtype == dtype
    weights = torch.softmax(mask.float(), dim=-1).flatten()
    torch.testing.assert_close(weights, torch.tensor(wanted), rtol=0, atol=2e-3)


def test_a_key_hidden_by_attn_mask_stays_below_one_that_is_cut_off() -> None:
    """In half precision too: what a Gaussian cuts off in fp32 is below anything that fp16 can hold."""
    mask = torch.tensor([[0.5, -torch.inf]])  # no mask of 0 and -inf alone, which would be taken as boolean
    bias = torch.tensor([[[[CUT_OFF, 0.0]]]])
    joined = join_masks(*hidden_and_bias(Frame(1, 2, attn_mask=mask), None, bias, torch.float16), torch.float16)
    assert joined is not None and torch.softmax(joined.float(), -1).flatten().tolist() == [1.0, 0.0]


def test_is_future(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def read(mask: Tensor) -> bool:
        reads.append(mask.size(0))
        return compute(mask)

    compute = masks._is_future
    monkeypatch.setattr(masks, "_is_future", read)
    whole = torch.full((9, 9), -torch.inf).triu(1)
    for length in (9, 4, 7, 4):
        assert is_future(whole[:length, :length])
    assert reads == [9], "parts of one tensor are read once"
    assert is_future(torch.full((5, 5), -1e9, dtype=torch.double).triu(1)) is False  # it adds, as ALiBi in fairseq
    assert is_future(torch.full((5, 5), torch.finfo(torch.half).min, dtype=torch.half).triu(1))
    assert is_future(torch.ones(5, 5, dtype=torch.bool).triu(1)) and not is_future(torch.ones(5, 5).triu(1).int())
    assert not is_future(whole[1:, 1:].T) and is_future(whole[2:6, 2:6])
    assert not is_future(torch.full((5, 5), -torch.inf).triu(1).requires_grad_())


def test_the_mask_of_the_future_is_known_without_being_read() -> None:
    mask = future_mask(5, torch.float32, torch.device("cpu"))
    assert torch.equal(mask, torch.full((5, 5), -torch.inf).triu(1))
    assert is_future(mask, read=False) and not is_future(mask.clone(), read=False)
    with torch.inference_mode():
        assert is_future(future_mask(6, torch.float32, torch.device("cpu")), read=False)
    mask = future_mask(7, torch.bfloat16, torch.device("meta"))
    hidden, bias = hidden_and_bias(Frame(7, 7, attn_mask=mask), None, None, torch.bfloat16)
    assert bias is None and hidden is not None and hidden.dtype == torch.bool


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 1, 4), (2, 1, 3, 4), (4,)])
def test_gradients_of_a_joined_bias(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """They are those of the scores that are not hidden; a row may be shifted, which no softmax sees."""
    torch.manual_seed(1)
    bias = torch.randn(shape, dtype=torch.double if dtype == torch.double else torch.float, requires_grad=True)
    hidden = torch.rand(2, 1, 3, 4) < 0.4
    hidden[..., 0] = False
    for each in (hidden, None):
        mask = join_masks(each, bias, dtype)
        assert mask is not None and mask.dtype == dtype
        plain = bias if each is None else bias.masked_fill(each, -torch.inf)
        probe = torch.randn(2, 1, 3, 4).to(bias.dtype)
        gradients = []
        for scores in (mask, plain):
            weights = torch.softmax(scores.to(bias.dtype), -1)
            gradients.append(torch.autograd.grad((weights * probe).sum(), bias)[0])
        torch.testing.assert_close(*gradients, rtol=0, atol=1e-12 if dtype == torch.double else 0.05)


@pytest.mark.parametrize("keys", [8, 13])
def test_rows_on_a_gpu_are_aligned(keys: int) -> None:
    """torch's kernels would copy another mask in every layer."""
    meta = torch.device("meta")
    hidden = torch.ones(2, 1, 5, keys, dtype=torch.bool, device=meta)
    for dtype in (torch.float32, torch.bfloat16):
        mask = join_masks(hidden, torch.ones(4, 5, keys, device=meta), dtype)
        assert mask is not None and mask.shape == (2, 4, 5, keys)
        assert not any(step % 8 for step in mask.stride()[:-1]) and mask.stride(-1) == 1
