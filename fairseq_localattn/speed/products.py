"""Matrix products on a CPU: by which library and in which precision this process and its models compute them."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import nn

from ..core.processor import bf16_is_faster, mkl_is_narrow, multiplies_bf16

logger = logging.getLogger(__name__)
# Functions that restore the setting of matrix products; filled when a model asks for products of oneDNN.
_restore: list[Callable[[], object]] = []


def configure_products(asked: str) -> str:
    """Set how matrix products are computed on a CPU in this process, and return how those of a model are."""
    products = _products_of_cpu(asked)
    if asked == "bf16" and not multiplies_bf16():
        logger.warning("--localattn-cpu-matmul bf16: this CPU has no products of bfloat16, so they are in fp32")
    elif asked == "bf16" and not bf16_is_faster():
        logger.warning("--localattn-cpu-matmul bf16: on an Intel CPU without AMX fp32 is faster: give auto")
    return "bf16 (autocast)" if trains_in_bf16(asked) else products


def trains_in_bf16(asked: str) -> bool:
    """Return whether encoder and decoder train under torch.autocast with bfloat16 on a CPU."""
    return asked == "bf16" and multiplies_bf16()


def convert_to_bf16(model: nn.Module, asked: str) -> None:
    """Convert a model's parameters in fp32 to bfloat16 for decoding, where asked for and no GPU is, and log it."""
    if not trains_in_bf16(asked) or torch.cuda.is_available():
        return
    if {parameter.dtype for parameter in model.parameters()} == {torch.float32}:  # one in half precision stays
        model.bfloat16()
        logger.info("decoding with parameters of bfloat16 (--localattn-cpu-matmul bf16)")


def _products_of_cpu(asked: str) -> str:
    """Set how matrix products of fp32 are computed on a CPU, and return how they are."""
    if asked != "fp32" and not torch.cuda.is_available() and mkl_is_narrow():
        if not _restore:
            _ask_for_onednn()
        if _restore and not _rounds_to_bf16():
            return "fp32 (oneDNN)"
    while _restore:  # undoes what this model or an earlier one of this process asked for
        _restore.pop()()
    return "bf16" if _rounds_to_bf16() else "fp32"  # bf16 where this process allowed it by itself


def _rounds_to_bf16() -> bool:
    """Return whether a product of fp32 matrices rounds its factors to bfloat16.

    Measured, because torch reports support also on CPUs that compute such products in fp32.
    """
    factor = torch.full((128, 128), 1 + 2**-12, device="cpu")  # 1 in bfloat16
    return bool((factor @ factor == 128).all())


def _ask_for_onednn() -> None:
    """Let oneDNN compute products of fp32 in this process, and remember how to undo it.

    torch's only setting for this also allows bfloat16; whether oneDNN then rounds to it depends on the CPU.
    """
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # this process has set it for the CPU alone, which stays
        return
    _restore.append(lambda: torch.set_float32_matmul_precision(before))
    torch.set_float32_matmul_precision("medium")
