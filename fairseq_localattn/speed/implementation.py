"""The flags that choose how a model computes attention, CPU matrix products and loss, and the log line about them."""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.modules import AdaptiveSoftmax
from torch import nn

from ..core.attention import LocalAttention
from ..core.flexible import TRIED_FROM
from ..errors import UsageError
from ..kernels.dense import IMPLEMENTATIONS, PRODUCTS_UP_TO
from ..options import fill_defaults
from .layers import MayAutocast, compile_layers, make_efficient
from .memory import keep_freed_memory

logger = logging.getLogger(__name__)
# Functions that restore the setting of matrix products; filled when a model asks for products of oneDNN.
_restore: list[Callable[[], object]] = []


@dataclass
class ImplementationOptions(FairseqDataclass):
    """Options of every architecture: how attention, matrix products and loss are computed."""

    localattn_attention: ChoiceEnum(IMPLEMENTATIONS) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "help": "how attention is computed: products (matrix products with a backward pass of their own; sdpa in "
            "half precision on a GPU, and in fp16 in inference), sdpa (torch's scaled_dot_product_attention), flex "
            "(torch's FlexAttention, for masks and biases of positions without dropout on the weights; else sdpa), "
            "triton (on a GPU kernels of their own for learned masks; else sdpa), or auto: on a CPU products up to "
            f"{PRODUCTS_UP_TO} keys, inside of bands, with dropout and with learned masks; else sdpa; in training on a "
            f"GPU the fastest of sdpa, triton and, from {TRIED_FROM} keys, flex. All but sdpa turn off cuDNN's kernels "
            "of attention for the whole process"
        },
    )
    localattn_cpu_matmul: ChoiceEnum(("auto", "fp32", "bf16")) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "help": "matrix products of fp32 on a CPU, for the whole process: fp32 (as torch computes them), auto (in "
            "fp32, by oneDNN on AMD's CPUs with AVX-512, which MKL does not use there), or bf16 (on CPUs with "
            "AVX512_BF16 or AMX: encoder and decoder train under torch.autocast, and decoding, where no GPU is, "
            "converts the parameters to bfloat16; else as auto)"
        },
    )
    localattn_compile: ChoiceEnum(("none", "inductor", "aot_eager")) = field(  # type: ignore[valid-type]
        default="none",
        metadata={
            "help": "let torch.compile fuse what is outside of attention in every layer, in training: inductor, for "
            "GPUs; aot_eager: traced, and computed by torch's ordinary kernels, to check it"
        },
    )
    localattn_loss: ChoiceEnum(("auto", "fairseq")) = field(  # type: ignore[valid-type]
        default="auto",
        metadata={
            "help": "how label-smoothed cross-entropy is computed: fairseq (as there), or auto: in training on a CPU "
            "in fp32 in the place of the logits; else as in fairseq"
        },
    )


def configure_runtime(model: nn.Module, args: Any) -> None:
    """Configure a model by its flags in ``args``, and log what is in force.

    Replaces layers of fairseq by faster ones, sets the implementation of every :class:`LocalAttention` and the
    attribute ``loss_in_place`` of the model, and makes three settings of the process: the precision of CPU matrix
    products; without a GPU, the allocator; and unless ``sdpa`` is asked for, no kernels of cuDNN for attention.
    """
    fill_defaults(args, ImplementationOptions)  # missing in checkpoints of older versions
    make_efficient(model)
    attentions = [module for module in model.modules() if isinstance(module, LocalAttention) and not module.part]
    for attention in attentions:
        attention.set_implementation(str(args.localattn_attention))
    if str(args.localattn_attention) != "sdpa":
        turn_off_cudnn()
    in_place = str(args.localattn_loss) == "auto" and _softmax_is_fairseqs(model)
    model.loss_in_place = in_place  # type: ignore[assignment]  # read by criterions/label_smoothed.py
    kinds = Counter(attention.kind for attention in attentions)
    found = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    cpu = f"; on a CPU: {_configure_products(model, str(args.localattn_cpu_matmul))} matrix products"
    cpu += f", label-smoothed loss {'of fp32 in the place of logits' if in_place else 'as in fairseq'}"
    chosen = str(args.localattn_attention)
    chosen += " (on a GPU sdpa in half precision)" if chosen == "products" else ""
    chosen += " (for masks and biases of positions; else sdpa)" if chosen == "flex" else ""
    chosen += " (for learned masks on a GPU; else sdpa)" if chosen == "triton" else ""
    backend = str(args.localattn_compile)
    if backend != "none":
        if getattr(args, "checkpoint_activations", False):
            raise UsageError("--localattn-compile does not go with --checkpoint-activations: drop one of them")
        chosen += f"; {compile_layers(model, backend)} layers compiled by {backend}"
    memory = "" if torch.cuda.is_available() else f", allocator: {keep_freed_memory()}"
    texts = "".join(f"; {site} {text!r}" for site, text in texts_of(model).items())
    logger.info(f"attention: {found}{texts}; implementation: {chosen}{cpu}{memory}")


def turn_off_cudnn() -> None:
    """Let no attention of this process be computed by cuDNN.

    torch prefers cuDNN's kernels in half precision on some GPUs (sm_90 and sm_100 in torch 2.11). They are planned anew
    for each shape, which costs hundreds of milliseconds, and almost every batch of sentences has a shape of its own.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)


def texts_of(model: nn.Module) -> dict[str, str]:
    """Return site → text of the sites of a model whose attention is not plain."""
    builder: Any = next((part.builder for part in model.children() if hasattr(part, "builder")), None)
    texts: dict[str, str] = {} if builder is None else builder.texts()
    return texts


def _softmax_is_fairseqs(model: nn.Module) -> bool:
    """Return whether a model's probabilities are fairseq's plain softmax of its logits, not an adaptive or own one."""
    if any(isinstance(module, AdaptiveSoftmax) for module in model.modules()):
        return False
    methods = (
        getattr(type(part), name, None)
        for part in (model, getattr(model, "decoder", model))
        for name in ("get_normalized_probs", "get_normalized_probs_scriptable")
    )
    return all(method is not None and method.__module__.startswith("fairseq.models.") for method in methods)


def _configure_products(model: nn.Module, asked: str) -> str:
    """Set how a model's matrix products are computed on a CPU, and return how they are."""
    products = _products_of_cpu(asked)
    in_bf16 = asked == "bf16" and _multiplies_bf16()
    model.decodes_in_bf16 = in_bf16 and not torch.cuda.is_available()  # type: ignore[assignment]
    for part in model.modules():
        if isinstance(part, MayAutocast):
            part.autocast = in_bf16
    if asked == "bf16" and not in_bf16:
        logger.warning("--localattn-cpu-matmul bf16: this CPU has no products of bfloat16, so they are in fp32")
    return "bf16 (autocast)" if in_bf16 else products


def convert_to_bf16(model: nn.Module) -> None:
    """Convert a model's parameters in fp32 to bfloat16 for decoding, and log it. A model in half precision stays."""
    if {parameter.dtype for parameter in model.parameters()} == {torch.float32}:
        model.bfloat16()
        logger.info("decoding with parameters of bfloat16 (--localattn-cpu-matmul bf16)")


def _products_of_cpu(asked: str) -> str:
    """Set how matrix products of fp32 are computed on a CPU, and return how they are."""
    if asked != "fp32" and not torch.cuda.is_available() and _mkl_is_narrow():
        if not _restore:
            _ask_for_onednn()
        if _restore and not _rounds_to_bf16():
            return "fp32 (oneDNN)"
    while _restore:  # undoes what this model or an earlier one of this process asked for
        _restore.pop()()
    return "bf16" if _rounds_to_bf16() else "fp32"  # bf16 where this process allowed it by itself


def _multiplies_bf16() -> bool:
    """Return whether the CPU multiplies matrices of bfloat16: AVX512_BF16, which CPUs with AMX have too."""
    return bool(torch.cpu._is_avx512_bf16_supported())


def _mkl_is_narrow() -> bool:
    """Return whether MKL, torch's library of matrix products, leaves half of the CPU's vector width unused.

    It takes AVX2 on every CPU that is not Intel's; oneDNN takes AVX-512 where it is.
    """
    if not torch.backends.mkl.is_available() or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return False


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
