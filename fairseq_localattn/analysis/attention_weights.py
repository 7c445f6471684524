"""The weights and soft masks of a Transformer's attentions, read while the model runs; no forward is changed.

For measures, heat maps and the like, on the models of this package and on fairseq's own ``transformer``:

    with collect_weights(self_attentions(model)) as weights, torch.inference_mode():
        model(**sample["net_input"])
        weights  # Sublayer → B×T×T
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..errors import UsageError
from ..mechanisms.windowed import WindowAttention

STACKS = ("encoder", "decoder")


@dataclass(frozen=True)
class Sublayer:
    """Where an attention stands.

    ``stack``: encoder or decoder; ``layer``: from 1, the lowest of those that are there; ``name``: of the module in its
    layer (``self_attn``, ``dman``, ``encoder_attn``); ``kind``: of the mechanism (``san``, ``dman``, ``mma``).
    """

    stack: str
    layer: int
    name: str
    kind: str


def self_attentions(model: nn.Module, stacks: Iterable[str] = STACKS) -> dict[Sublayer, nn.Module]:
    """Every self-attention of the ``stacks`` of a Transformer with ``encoder.layers`` and ``decoder.layers``.

    Attention to the encoder is left out, and so is that of ``--cross-self-attention``, whose keys are the words of both
    sentences.
    """
    return {at: module for stack in stacks for at, module in _attentions(model, stack) if module.self_attention}


def cross_attentions(model: nn.Module) -> dict[Sublayer, nn.Module]:
    """Every attention of the decoder to the encoder; none in a model with ``--no-cross-attention``."""
    return {at: module for at, module in _attentions(model, "decoder") if module.encoder_decoder_attention}


def _attentions(model: nn.Module, stack: str) -> Iterator[tuple[Sublayer, Any]]:
    """Every attention of a stack, from the lowest layer."""
    layers = getattr(model, stack).layers
    for number in range(len(layers)):  # by index: iteration over a stack with LayerDrop leaves layers out
        for path, module in layers[number].named_modules():
            if isinstance(module, (LocalAttention, MultiheadAttention)):
                kind = getattr(module, "kind", "san")
                yield Sublayer(stack, number + 1, path.rpartition(".")[2], kind), module


@contextmanager
def collect_weights(
    attentions: Mapping[Sublayer, nn.Module], by_head: bool = False
) -> Iterator[dict[Sublayer, Tensor]]:
    """While it is open, each forward pass leaves the weights of these attentions in the dictionary that it gives.

    A value is B×T×S, averaged over heads, or B×H×T×S if ``by_head``; before dropout (fairseq's own attention: after;
    run it in evaluation mode), in the order in which the sublayers ran; the next pass replaces it. The outputs remain
    what they were, to rounding: attention that returns its weights cannot take the fused kernel. Each caller in the
    model gets the weights that it asked for. All hooks are gone at the end.

    Raises UsageError for an attention that gives no weights.
    """
    weights: dict[Sublayer, Tensor] = {}
    handles = []
    try:
        for sublayer, attention in attentions.items():
            ask, read = _weight_hooks(sublayer, weights, by_head)
            handles.append(attention.register_forward_pre_hook(ask, with_kwargs=True))
            handles.append(attention.register_forward_hook(read))
        yield weights
    finally:
        for handle in handles:
            handle.remove()


def _weight_hooks(sublayer: Sublayer, weights: dict[Sublayer, Tensor], by_head: bool) -> tuple[Any, Any]:
    """What asks an attention for its weights before it runs, and what reads them after."""
    asked: dict[str, Any] = {}

    def ask(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        asked.clear()
        asked.update(weights=kwargs.get("need_weights", True), heads=kwargs.get("need_head_weights", False))
        more: dict[str, Any] = {"need_weights": True, "need_head_weights": by_head or asked["heads"]}
        if by_head and isinstance(module, MultiheadAttention) and kwargs.get("incremental_state") is None:
            # Without a state fairseq hands self-attention to torch, which tells only the mean over heads.
            more["incremental_state"] = {}
        return args, {**kwargs, **more}

    def read(_: nn.Module, args: tuple[Any, ...], output: tuple[Tensor, Tensor | None]) -> Any:
        attended, told = output
        if told is None:
            where = f"{sublayer.name} in {sublayer.stack} layer {sublayer.layer}"
            raise UsageError(f"{where}: this attention does not tell its weights (xFormers does not)")
        mean = told.mean(dim=0) if told.dim() == 4 else told  # by head they are H×B×T×S
        weights[sublayer] = told.transpose(0, 1) if by_head else mean
        if asked["heads"]:
            return attended, told
        return attended, mean if asked["weights"] else None

    return ask, read


@contextmanager
def collect_masks(attentions: Mapping[Sublayer, nn.Module]) -> Iterator[dict[Sublayer, Tensor]]:
    """While it is open, each forward pass leaves the soft masks of those attentions that have windows.

    A value is what ``WindowAttention.soft_mask`` returned, B×H×T×S, from 0 to 2; the next pass replaces it. (Of windows
    of segments in a batch with padding on the left, the keys are those that ``soft_mask`` is given: each sentence's
    real keys come first.) Nothing else changes, and each attention has its own ``soft_mask`` again at the end.
    """
    masks: dict[Sublayer, Tensor] = {}
    windows = {at: module for at, module in attentions.items() if isinstance(module, WindowAttention)}
    before = {at: vars(module).get("soft_mask") for at, module in windows.items()}  # of a collector around this one

    def collector(sublayer: Sublayer, soft_mask: Any) -> Any:
        def collect(*args: Any, **kwargs: Any) -> Tensor:
            mask: Tensor = soft_mask(*args, **kwargs)
            masks[sublayer] = mask.detach()
            return mask

        return collect

    try:
        for sublayer, module in windows.items():
            vars(module)["soft_mask"] = collector(sublayer, module.soft_mask)
        yield masks
    finally:
        for sublayer, module in windows.items():
            vars(module).pop("soft_mask")
            if before[sublayer] is not None:
                vars(module)["soft_mask"] = before[sublayer]
