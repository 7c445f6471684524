"""The flags that choose how a model computes attention, CPU matrix products and loss, and the log line about them."""

import logging
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.modules import AdaptiveSoftmax
from torch import nn

from ..core.attention import LocalAttention
from ..core.flexible import TRIED_FROM
from ..kernels.dense import IMPLEMENTATIONS, PRODUCTS_UP_TO
from ..options import option
from .layers import make_efficient
from .memory import keep_freed_memory
from .products import configure_products

logger = logging.getLogger(__name__)


@dataclass
class ImplementationOptions(FairseqDataclass):
    """Options of every architecture: how attention, matrix products and loss are computed."""

    localattn_attention: ChoiceEnum(IMPLEMENTATIONS) = option(  # type: ignore[valid-type]
        "auto",
        "how attention is computed: products (matrix products with a backward pass of their own; sdpa in half "
        "precision on a GPU, and in fp16 in inference), sdpa (torch's scaled_dot_product_attention), flex (torch's "
        "FlexAttention, for masks and biases of positions without dropout on the weights; else sdpa), triton (on a GPU "
        "this package's kernels for learned masks; else sdpa), or auto: on a CPU products up to "
        f"{PRODUCTS_UP_TO} keys, inside of bands, with dropout and with learned masks; else sdpa; in training on a GPU "
        f"the fastest of sdpa, triton and, from {TRIED_FROM} keys, flex. All but sdpa turn off cuDNN's kernels of "
        "attention for the whole process",
    )
    localattn_cpu_matmul: ChoiceEnum(("auto", "fp32", "bf16")) = option(  # type: ignore[valid-type]
        "auto",
        "matrix products of fp32 on a CPU, for the whole process: fp32 (as torch computes them), auto (in fp32, by "
        "oneDNN on AMD's CPUs with AVX-512, which MKL does not use there), or bf16 (on CPUs with AVX512_BF16 or AMX: "
        "encoder and decoder train under torch.autocast, and decoding, where no GPU is, converts the parameters to "
        "bfloat16; else as auto)",
    )
    localattn_loss: ChoiceEnum(("auto", "fairseq")) = option(  # type: ignore[valid-type]
        "auto",
        "how label-smoothed cross-entropy is computed: fairseq (as there), or auto: in training on a CPU in fp32 in "
        "the place of the logits; else as in fairseq",
    )
    localattn_graphs: int = option(
        16,
        "record training steps as CUDA graphs of at most this number of shapes, to which batches are cut and padded; "
        "0: without graphs, with the batches of fairseq",
    )


def configure_runtime(model: Any) -> None:
    """Exchange layers of fairseq in a model of this package, make settings of the process, and log what is in force.

    The settings: the precision of CPU matrix products; without a GPU, the allocator; and unless ``sdpa`` is asked for,
    no kernels of cuDNN for attention.
    """
    make_efficient(model)
    options: ImplementationOptions = model.runtime
    chosen = str(options.localattn_attention)
    if chosen != "sdpa":
        turn_off_cudnn()
    kinds = Counter(each.kind for each in model.modules() if isinstance(each, LocalAttention) and not each.part)
    found = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    cpu = f"; on a CPU: {configure_products(str(options.localattn_cpu_matmul))} matrix products"
    cpu += f", label-smoothed loss {'of fp32 in the place of logits' if model.loss_in_place else 'as in fairseq'}"
    chosen += " (on a GPU sdpa in half precision)" if chosen == "products" else ""
    chosen += " (for masks and biases of positions; else sdpa)" if chosen == "flex" else ""
    chosen += " (for learned masks on a GPU; else sdpa)" if chosen == "triton" else ""
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


def softmax_is_fairseqs(model: nn.Module) -> bool:
    """Return whether a model's probabilities are fairseq's plain softmax of its logits, not an adaptive or own one."""
    if any(isinstance(module, AdaptiveSoftmax) for module in model.modules()):
        return False
    methods = (
        getattr(type(part), name, None)
        for part in (model, getattr(model, "decoder", model))
        for name in ("get_normalized_probs", "get_normalized_probs_scriptable")
    )
    return all(method is not None and method.__module__.startswith("fairseq.models.") for method in methods)
