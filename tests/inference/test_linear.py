"""Weights of 8 bits change the logits of the decoder by little, those laid out for oneDNN not at all."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from fairseq_localattn.inference import Options, search
from fairseq_localattn.inference import linear as layers
from fairseq_localattn.inference.linear import Int8Linear, OneDnnLinear, to_int8, to_onednn
from support.inference.models import batch_of, logits_of, random_model, without_fairseq

TINY = ["transformer_mma_tiny", "transformer_man_tiny", "transformer_mgsa_ngram_tiny"]


@pytest.mark.parametrize("name", [*TINY, "localness-all", "diffwin-all-layers", "hybrid-sublayers"])
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


def test_keys_are_kept_in_bf16_where_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    model, args = random_model("transformer_mma_tiny")
    for faster, kept_in in ((True, torch.bfloat16), (False, None)):
        monkeypatch.setattr(layers, "bf16_is_faster", lambda faster=faster: faster)
        decoder = to_int8(without_fairseq(model, args)).decoder
        assert decoder.start().kept_in is copy.deepcopy(decoder).start().kept_in is kept_in


def test_weights_that_are_loaded_later_are_computed_with() -> None:
    one, other = (Int8Linear.of(torch.nn.Linear(8, 16)) for _ in range(2))
    one.load_state_dict(other.state_dict())
    x = torch.randn(3, 8)
    assert torch.equal(one(x), other(x))


def test_threads_leave_the_choice_of_the_library() -> None:
    engine, linears = torch.backends.quantized.engine, [torch.nn.Linear(8, 8 * (n % 2 + 1)) for n in range(400)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(Int8Linear.of, linears))
    assert torch.backends.quantized.engine == engine


@pytest.mark.parametrize("outputs", [8, 16])
@pytest.mark.parametrize("amx", [False, True])
def test_products_of_both_libraries(monkeypatch: pytest.MonkeyPatch, amx: bool, outputs: int) -> None:
    monkeypatch.setattr(layers, "_AMX", amx)  # the choice of the library alone: oneDNN has more than AMX
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


@pytest.mark.parametrize("name", ["transformer_mma_tiny", "diffwin-all-layers", "hybrid-sublayers"])
def test_logits_by_onednn(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    model, args = random_model(name)
    tokens, words = batch_of(model, [5, 9, 7])["src_tokens"], torch.tensor([[2, 8, 9], [5, 6, 7]])
    plain = without_fairseq(model, args)
    monkeypatch.setattr(layers, "mkl_is_narrow", lambda: False)
    assert not any(isinstance(module, OneDnnLinear) for module in to_onednn(plain).modules())
    wanted = logits_of(plain, tokens, words)
    monkeypatch.setattr(layers, "mkl_is_narrow", lambda: True)
    changed = to_onednn(plain)
    assert sum(isinstance(module, OneDnnLinear) for module in changed.modules()) >= 2 * 9
    for each in (changed, copy.deepcopy(changed), pickle.loads(pickle.dumps(changed))):
        torch.testing.assert_close(logits_of(each, tokens, words), wanted)
    assert len(search(changed, tokens, Options(max_len_b=5))) == 3


@pytest.mark.parametrize("shape", [(3,), (1, 5), (2, 0), (4, 7)])
@pytest.mark.parametrize("bias", [True, False])
def test_products_by_onednn(shape: tuple[int, ...], bias: bool) -> None:
    layer = torch.nn.Linear(8, 16, bias=bias).requires_grad_(False)
    x = torch.randn(*shape, 8)
    torch.testing.assert_close(OneDnnLinear(layer)(x), layer(x))
