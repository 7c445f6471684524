"""The flags that choose attention, matrix products and loss, and the log line about them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fairseq_localattn.core import processor
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.speed import products, runtime
from support.models import build


@pytest.mark.parametrize(
    ("arch", "name", "said"),
    [
        ("csan", "sdpa", "5 san"),
        ("csan", "sdpa", "implementation: sdpa"),
        ("csan", "sdpa", "label-smoothed loss of fp32 in the place of logits"),
        ("mma", "products", "implementation: products (on a GPU sdpa in half precision);"),
        ("hybrid", "flex", "implementation: flex (for masks and biases of positions; else sdpa);"),
        ("hybrid", "triton", "implementation: triton (for learned masks on a GPU;"),
    ],
)
def test_the_log_says_how_attention_is_computed(
    arch: str, name: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    text = ["--localattn-encoder", "all: local & alibi + dman > ffn"] if arch == "hybrid" else []
    with caplog.at_level(logging.INFO):
        model = build(f"transformer_{arch}_tiny", [*text, "--localattn-attention", name])
    assert said in next(record.message for record in caplog.records if record.name == runtime.__name__)
    assert {module.implementation for module in model.modules() if isinstance(module, LocalAttention)} == {name}


def test_cudnn_computes_attention_only_where_sdpa_is_asked_for() -> None:
    """Its kernels are planned anew for each shape of a batch. The setting is that of the process."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        for asked, enabled in {"sdpa": True, "auto": False}.items():
            torch.backends.cuda.enable_cudnn_sdp(True)
            build("transformer_mma_tiny", ["--localattn-attention", asked])
            assert torch.backends.cuda.cudnn_sdp_enabled() == enabled
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def test_products_beside_a_gpu_stay_as_torch_computes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch has one setting for both devices, which turns on TF32 on the GPU: it is left alone there."""
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "fp32"])
    before = torch.get_float32_matmul_precision()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(products, "mkl_is_narrow", lambda: True)
    for asked in ("auto", "bf16"):
        assert products._products_of_cpu(asked) in ("fp32", "bf16") and not products._restore
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="torch before 2.9 has no setting to make")
def test_a_setting_of_the_process_for_the_cpu_alone_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "fp32"])
    monkeypatch.setattr(products, "mkl_is_narrow", lambda: True)
    matmul: Any = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = torch._C._get_fp32_precision_getter("mkldnn", "matmul")
    try:
        matmul.fp32_precision = "bf16"
        assert products._products_of_cpu("auto") in ("fp32", "bf16") and not products._restore
    finally:
        matmul.fp32_precision = before


@pytest.mark.parametrize(("capability", "cpu", "narrow"), [
    ("AVX512", "vendor_id\t: AuthenticAMD", True), ("AVX512", "vendor_id\t: GenuineIntel", False),
    ("AVX2", "vendor_id\t: AuthenticAMD", False), ("AVX512", None, False),
])  # fmt: skip
def test_where_mkl_leaves_avx512_unused(
    monkeypatch: pytest.MonkeyPatch, capability: str, cpu: str | None, narrow: bool
) -> None:
    def read(path: Path) -> str:
        if cpu is None:
            raise FileNotFoundError(path)
        return cpu

    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(Path, "read_text", read)
    assert products.mkl_is_narrow() is narrow


def test_checkpoints_from_before_a_flag_build() -> None:
    flags = ("localattn_attention", "localattn_cpu_matmul", "localattn_loss")
    missing: dict[str, Any] = dict.fromkeys(flags)
    model = build("transformer_mma_tiny", **missing)
    assert model.encoder.layers[0].self_attn.implementation == "auto" and model.loss_in_place


@pytest.fixture
def fp32_products() -> Iterator[Callable[[], str]]:
    """Return a function that reads the process's precision of fp32 products, which is torch's own after the test."""
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("torch before 2.9 has no setting to look at")
    # A process that has made no setting reads "none", one that has restored it "ieee": both are fp32.
    torch.set_float32_matmul_precision(torch.get_float32_matmul_precision())
    yield lambda: torch._C._get_fp32_precision_getter("mkldnn", "matmul")
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "fp32"])


def test_bf16_products_under_autocast(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Where the CPU multiplies bfloat16, encoder and decoder compute in it, in training alone."""
    monkeypatch.setattr(products, "multiplies_bf16", lambda: True)
    with caplog.at_level(logging.INFO):
        model = build("transformer_mma_tiny", ["--localattn-cpu-matmul", "bf16"])
    assert "bf16 (autocast) matrix products" in caplog.text
    words = torch.tensor([[5, 6, 2]])

    def logits(model: Any) -> torch.Tensor:
        found: torch.Tensor = model.decoder(words, encoder_out=model.encoder(words, torch.tensor([3])))[0]
        return found

    found = logits(model.train())
    assert found.dtype == torch.bfloat16 and not torch.is_autocast_enabled("cpu")
    found.float().sum().backward()
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
    assert logits(model.eval()).dtype == logits(build("transformer_mma_tiny").train()).dtype == torch.float32


def test_checkpointed_layers_are_computed_again_in_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq's --checkpoint-activations would compute them again in fp32, and return the gradients of that."""
    monkeypatch.setattr(products, "multiplies_bf16", lambda: True)
    model = build("transformer_mma_tiny", ["--localattn-cpu-matmul", "bf16", "--checkpoint-activations"]).train()
    computed: list[torch.dtype] = []
    model.encoder.layers[0].fc1.register_forward_hook(lambda *call: computed.append(call[-1].dtype))
    words = torch.tensor([[5, 6, 2]])
    model.decoder(words, encoder_out=model.encoder(words, torch.tensor([3])))[0].float().sum().backward()
    assert computed == [torch.bfloat16] * 2


@pytest.mark.parametrize(("vendor", "amx", "warned"), [
    ("GenuineIntel", False, True), ("GenuineIntel", True, False), ("AuthenticAMD", False, False),
])  # fmt: skip
def test_bf16_that_is_slower_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, vendor: str, amx: bool, warned: bool
) -> None:
    """Intel's CPUs without AMX take nearly twice as long for a product in bf16 as in fp32; AMD's do not."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setattr(processor, "is_of", lambda name: name == vendor)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "bf16"])
    assert ("fp32 is faster" in caplog.text) is warned


@pytest.mark.parametrize(("asked", "multiplies", "gpu", "found"), [
    ("bf16", True, False, torch.bfloat16), ("auto", True, False, torch.float32), ("fp32", True, False, torch.float32),
    ("bf16", False, False, torch.float32), ("bf16", True, True, torch.float32),
])  # fmt: skip
def test_where_decoding_converts_the_parameters(
    fp32_products: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    asked: str,
    multiplies: bool,
    gpu: bool,
    found: torch.dtype,
) -> None:
    """On CPUs that multiply bfloat16, where the flag asks for it; a model in half precision stays."""
    for name in ("_rounds_to_bf16", "mkl_is_narrow"):
        monkeypatch.setattr(products, name, lambda: False)
    monkeypatch.setattr(products, "multiplies_bf16", lambda: multiplies)
    caplog.set_level(logging.INFO)
    for kind, wanted in ((torch.float32, found), (torch.float16, torch.float16)):
        with monkeypatch.context() as patch:
            patch.setattr(torch.cuda, "is_available", lambda: gpu)
            model = build("transformer_mma_tiny", ["--localattn-cpu-matmul", asked]).eval().to(kind)
            model.prepare_for_inference_(SimpleNamespace(generation=SimpleNamespace()))
        assert {parameter.dtype for parameter in model.parameters()} == {wanted}
    assert ("decoding with parameters of bfloat16" in caplog.text) is (found == torch.bfloat16)


@pytest.mark.parametrize("rounds", [False, True])
def test_products_of_onednn_are_taken_in_fp32_alone(
    fp32_products: Callable[[], str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, rounds: bool
) -> None:
    """On a CPU whose MKL is slow, auto takes oneDNN where that computes in fp32, and leaves it where it rounds."""
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "fp32"])
    plain = fp32_products()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(products, "mkl_is_narrow", lambda: True)
    monkeypatch.setattr(products, "_rounds_to_bf16", lambda: rounds)
    with caplog.at_level(logging.INFO):
        build("transformer_mma_tiny")
    assert ("fp32 (oneDNN) matrix products" in caplog.text) is not rounds
    assert fp32_products() == (plain if rounds else "bf16")
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "fp32"])
    assert fp32_products() == plain


@pytest.mark.parametrize("there", [True, False])
def test_bf16_products(
    fp32_products: Callable[[], str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, there: bool
) -> None:
    """The setting, the log and the error of a product agree, on CPUs with products of bfloat16 and without."""
    for name in ("_rounds_to_bf16", "multiplies_bf16", "mkl_is_narrow") if not there else ():
        monkeypatch.setattr(products, name, lambda: False)
    caplog.set_level(logging.INFO)
    x = torch.randn(256, 256)
    exact = x.double() @ x.double()
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "fp32"])
    before = fp32_products()
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "bf16"])
    assert ("no products of bfloat16" in caplog.text) is not ("bf16 (autocast)" in caplog.text)
    assert there or "no products of bfloat16" in caplog.text
    assert (x @ x - exact).norm() < 1e-5 * exact.norm()  # products outside of the model stay in fp32
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "fp32"])  # undoes what auto asked for
    assert fp32_products() == before
