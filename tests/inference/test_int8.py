"""Weights of 8 bits change the decoder's logits by little, whatever its mechanisms."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fairseq_localattn.inference import Options, int8, search
from fairseq_localattn.inference.int8 import Int8Linear, to_int8
from support.inference.models import batch_of, logits_of, random_model, without_fairseq


@pytest.mark.parametrize(
    "name",
    [
        "transformer_mma_tiny",
        "transformer_man_tiny",
        "localness-all",
        "diffwin-all-layers",
        "hybrid-sublayers",
        "transformer_mgsa_ngram_tiny",
    ],
)
def test_logits_are_nearly_the_same(name: str) -> None:
    model, args = random_model(name)
    tokens = batch_of(model, [5, 9, 7])["src_tokens"]
    exact, coarse = without_fairseq(model, args), to_int8(without_fairseq(model, args))
    assert sum(isinstance(module, Int8Linear) for module in coarse.modules()) >= 2 * 9
    words = torch.tensor([[2, 8, 9], [5, 6, 7], [30, 31, 32]])
    found = [logits_of(each, tokens, words) for each in (exact, coarse)]
    error = (found[0] - found[1]).norm() / found[0].norm()
    assert 0 < error < 0.05
    assert len(search(coarse, tokens, Options(max_len_b=5))) == 3


def test_weights_that_are_loaded_later_are_computed_with() -> None:
    one, other = (Int8Linear.of(torch.nn.Linear(8, 16)) for _ in range(2))
    one.load_state_dict(other.state_dict())
    x = torch.randn(3, 8)
    assert torch.equal(one(x), other(x))


def test_threads_leave_the_choice_of_the_library() -> None:
    engine, layers = torch.backends.quantized.engine, [torch.nn.Linear(8, 8 * (n % 2 + 1)) for n in range(400)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(Int8Linear.of, layers))
    assert torch.backends.quantized.engine == engine


@pytest.mark.parametrize("outputs", [8, 16])
@pytest.mark.parametrize("amx", [False, True])
def test_products_of_both_libraries(monkeypatch: pytest.MonkeyPatch, amx: bool, outputs: int) -> None:
    monkeypatch.setattr(int8, "_AMX", amx)  # the choice of the library alone: oneDNN has more than AMX
    engine = torch.backends.quantized.engine
    linear = torch.nn.Linear(8, outputs).requires_grad_(False)
    coarse = Int8Linear.of(linear)
    assert torch.backends.quantized.engine == engine
    for rows in ((3,), (1, 5), (2, 0), (4, 7)):
        x = torch.randn(*rows, 8)
        torch.testing.assert_close(coarse(x), linear(x), atol=0.1, rtol=0)
    x = torch.randn(6, 9, 8).transpose(0, 1)
    assert torch.equal(coarse(x), coarse(x.contiguous()))
    torch.testing.assert_close(coarse(torch.zeros(1, 2, 8)), linear.bias.expand(1, 2, outputs))
