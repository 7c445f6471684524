"""Collection of the weights and soft masks of a Transformer's attentions, by hooks, while the model runs.

It works on the models of this package and on fairseq's own ``transformer``:

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
    """The place of an attention in a model.

    Args:
        stack: ``encoder`` or ``decoder``.
        layer: its number among the existing layers, from 1 (the lowest).
        name: of the module in its layer, such as ``self_attn``, ``dman``, ``encoder_attn``.
        kind: of the mechanism, such as ``san``, ``dman``, ``mma``.
    """

    stack: str
    layer: int
    name: str
    kind: str


def self_attentions(model: nn.Module, stacks: Iterable[str] = STACKS) -> dict[Sublayer, nn.Module]:
    """Return all self-attentions in ``stacks`` of a Transformer with ``encoder.layers`` and ``decoder.layers``.

    The decoder's attention of ``--cross-self-attention``, whose keys are the words of both sentences, is not included.
    """
    return {at: module for stack in stacks for at, module in _attentions(model, stack) if module.self_attention}


def cross_attentions(model: nn.Module) -> dict[Sublayer, nn.Module]:
    """Return all attentions of the decoder to the encoder; a model with ``--no-cross-attention`` has none."""
    return {at: module for at, module in _attentions(model, "decoder") if module.encoder_decoder_attention}


def _attentions(model: nn.Module, stack: str) -> Iterator[tuple[Sublayer, Any]]:
    """Yield all attentions of a stack, from the lowest layer on."""
    layers = getattr(model, stack).layers
    for number in range(len(layers)):  # by index: iterating over layers with LayerDrop skips some
        for path, module in layers[number].named_modules():
            if isinstance(module, (LocalAttention, MultiheadAttention)) and not getattr(module, "part", False):
                kind = getattr(module, "kind", "san")
                yield Sublayer(stack, number + 1, path.rpartition(".")[2], kind), module


@contextmanager
def collect_weights(
    attentions: Mapping[Sublayer, nn.Module], by_head: bool = False
) -> Iterator[dict[Sublayer, Tensor]]:
    """Context manager that collects attention weights in the dictionary that it returns.

    Each forward pass of the model replaces the values: B×T×S averaged over heads, or B×H×T×S if ``by_head``, in the
    order in which the sublayers ran. They are the weights before dropout; fairseq's own attention returns those after
    dropout, so run it in evaluation mode. The model's outputs stay the same up to rounding, since attention that
    returns its weights does not use the fused kernel. All hooks are removed at the end.

    Raises UsageError for an attention that returns no weights.
    """
    weights: dict[Sublayer, Tensor] = {}
    handles = []
    try:
        for sublayer, attention in attentions.items():
            request, read = _weight_hooks(sublayer, weights, by_head)
            handles.append(attention.register_forward_pre_hook(request, with_kwargs=True))
            handles.append(attention.register_forward_hook(read))
        yield weights
    finally:
        for handle in handles:
            handle.remove()


def _weight_hooks(sublayer: Sublayer, weights: dict[Sublayer, Tensor], by_head: bool) -> tuple[Any, Any]:
    """Return a forward pre-hook that requests an attention's weights, and a forward hook that stores them."""
    requested: dict[str, Any] = {}  # by the caller, who must get what it asked for

    def request(
        module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        requested.clear()
        requested.update(weights=kwargs.get("need_weights", True), heads=kwargs.get("need_head_weights", False))
        more: dict[str, Any] = {"need_weights": True, "need_head_weights": by_head or requested["heads"]}
        if by_head and isinstance(module, MultiheadAttention) and kwargs.get("incremental_state") is None:
            # Without a state fairseq passes self-attention to torch, which returns only the mean over heads.
            more["incremental_state"] = {}
        return args, {**kwargs, **more}

    def read(_: nn.Module, args: tuple[Any, ...], output: tuple[Tensor, Tensor | None]) -> Any:
        attended, attention = output
        if attention is None:
            where = f"{sublayer.name} in {sublayer.stack} layer {sublayer.layer}"
            raise UsageError(f"{where}: this attention does not tell its weights (xFormers does not)")
        mean = attention.mean(dim=0) if attention.dim() == 4 else attention  # H×B×T×S by head
        weights[sublayer] = attention.transpose(0, 1) if by_head else mean
        if requested["heads"]:
            return attended, attention
        return attended, mean if requested["weights"] else None

    return request, read


@contextmanager
def collect_masks(attentions: Mapping[Sublayer, nn.Module]) -> Iterator[dict[Sublayer, Tensor]]:
    """Context manager that collects the soft masks of the attentions with windows in the dictionary that it returns.

    Each forward pass of the model replaces the values: the results of ``WindowAttention.soft_mask``, B×H×T×S, from 0 to
    2. With windows of segments and padding on the left, each sentence's real keys come first. The attentions have their
    own ``soft_mask`` again at the end.
    """
    masks: dict[Sublayer, Tensor] = {}
    windows = {at: module for at, module in attentions.items() if isinstance(module, WindowAttention)}
    before = {at: vars(module).get("soft_mask") for at, module in windows.items()}  # set by an enclosing collect_masks

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
