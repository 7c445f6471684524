"""The compiler accepts the kernels as they are launched; the interpreter, which runs them in other tests, is laxer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fairseq_localattn.grammar.build import attention
from support.kernels import SHARED_MEMORY, compile_launches, needs_interpreter, recorded
from support.mechanisms.implementations import compute_by

pytestmark = [needs_interpreter, pytest.mark.slow]


def train(text: str, site: str, length: int, dtype: torch.dtype, dropout: float = 0.1) -> None:
    """Call an attention with two heads of 64 channels, and its backward pass."""
    module = attention(text, 128, 2, site=site, self_attention=True, dropout=dropout).to(dtype).train()
    compute_by(module, "triton")
    x = torch.zeros(length, 2, 128, dtype=dtype, requires_grad=True)
    padding = torch.zeros(2, length, dtype=torch.bool)
    mask = torch.full((length, length), -torch.inf, dtype=dtype).triu(1) if site == "decoder" else None
    module(x, x, x, key_padding_mask=padding, attn_mask=mask, need_weights=False)[0].sum().backward()


CASES: dict[str, Callable[[], None]] = {
    "dman bf16": lambda: train("dman", "decoder", 70, torch.bfloat16),
    "dman fp16": lambda: train("dman", "encoder", 30, torch.float16, dropout=0.0),
    "dman fp32": lambda: train("dman", "encoder", 40, torch.float32),
}


@pytest.mark.parametrize("case", CASES)
def test_kernels_compile_for_a_gpu(case: str) -> None:
    """Each fits into the memory of every GPU since sm_80, and spills few registers."""
    with recorded(run=False) as launches:
        CASES[case]()
    assert launches
    for launch, found in zip(launches, compile_launches(launches), strict=True):
        assert found["shared"] <= SHARED_MEMORY and found["stack"] <= 100, (launch, found)
