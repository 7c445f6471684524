"""The flags that choose attention, matrix products and loss, and the log line about them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import torch

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.speed import implementation
from support.models import build


def test_the_log_says_how_attention_is_computed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        model = build("transformer_csan_tiny", ["--localattn-attention", "sdpa"])
    line = next(record.message for record in caplog.records if record.name == implementation.__name__)
    assert "1 csan" in line and "5 san" in line and "implementation: sdpa" in line and "fp32 matrix products" in line
    assert "label-smoothed loss of fp32 in the place of logits" in line
    chosen = {module.implementation for module in model.modules() if isinstance(module, LocalAttention)}
    assert chosen == {"sdpa"}


def test_the_log_says_where_products_are_not_used(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        build("transformer_mma_tiny", ["--localattn-attention", "products"])
    assert "implementation: products (in fp32 and fp64; else sdpa);" in caplog.text


def test_bf16_products_of_old_torch_do_not_change_those_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch.backends, "mkldnn", SimpleNamespace())
    monkeypatch.setattr(torch, "set_float32_matmul_precision", asked.append)
    monkeypatch.setattr(implementation, "_rounds_to_bf16", lambda: bool(asked))
    monkeypatch.setattr(implementation, "_restore", [])
    for gpu, wanted in ((True, "fp32"), (False, "bf16")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda gpu=gpu: gpu)
        assert implementation._products_of_cpu("bf16") == wanted
    assert asked == ["medium"] and "torch before 2.9 none beside a GPU's" in caplog.text


def test_a_checkpoint_from_before_the_flags_builds() -> None:
    model = build("transformer_mma_tiny", localattn_attention=None, localattn_cpu_matmul=None, localattn_loss=None)
    assert model.encoder.layers[0].self_attn.implementation == "auto" and model.loss_in_place


@pytest.fixture
def fp32_products() -> Iterator[Callable[[], str]]:
    """Return a function that reads the process's precision of fp32 products, which is restored after the test."""
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("torch before 2.9 has no setting to look at")

    def setting() -> str:
        return torch._C._get_fp32_precision_getter("mkldnn", "matmul")

    before = setting()
    yield setting
    torch.backends.mkldnn.matmul.fp32_precision = before


def test_bf16_products_where_the_cpu_has_none(
    fp32_products: Callable[[], str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = fp32_products()
    monkeypatch.setattr(implementation, "_rounds_to_bf16", lambda: False)
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "bf16"])
    assert "no products of bfloat16" in caplog.text and fp32_products() == before


def test_bf16_products(fp32_products: Callable[[], str], caplog: pytest.LogCaptureFixture) -> None:
    """The setting, the log and the error of a product agree, on CPUs with products of bfloat16 and without."""
    x = torch.randn(256, 256)
    exact = x.double() @ x.double()

    def error() -> float:
        return ((x @ x - exact).norm() / exact.norm()).item()

    build("transformer_mma_tiny")
    assert error() < 1e-5
    before = fp32_products()
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "bf16"])
    if "no products of bfloat16" in caplog.text:
        assert fp32_products() == before and error() < 1e-5
    else:
        assert fp32_products() == "bf16" and 1e-4 < error() < 1e-2
    build("transformer_mma_tiny")  # a model that does not ask for it does not get it
    assert fp32_products() == before
