"""Collection of the weights and soft masks of a Transformer's attentions, by hooks, while the model runs.

It works on the models of this package and on fairseq's own ``transformer``:

    with collect_weights(self_attentions(model)) as weights, torch.inference_mode():
        model(**sample["net_input"])
        weights  # Sublayer → B×T×T
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import torch
from fairseq.modules import MultiheadAttention
from torch import Tensor, nn

from ..core.attention import LocalAttention
from ..core.composed import ComposedAttention, GroupedAttention
from ..errors import UsageError
from ..mechanisms.alibi import LinearBiasAttention
from ..mechanisms.gaussian import GaussianAttention
from ..mechanisms.masked import DynamicMaskAttention
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
            handles.append(attention.register_forward_hook(read, prepend=True))  # an outer one reads later
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
    """Context manager that collects the soft masks of the attentions that have some in the dictionary that it returns.

    Each forward pass of the model replaces the values, B×H×T×S; a head without a mask is NaN there, and the masks of
    mechanisms on the same heads are multiplied; the future of a decoder is 0. See :data:`MASKS` for what is a mask.
    The weights are requested as well, since a faster computation may not make the masks. The attentions are as before
    at the end.
    """
    masks: dict[Sublayer, Tensor] = {}
    masked = {sublayer: parts for sublayer, module in attentions.items() if (parts := list(masked_parts(module)))}
    with ExitStack() as undo:
        undo.enter_context(collect_weights({sublayer: attentions[sublayer] for sublayer in masked}))
        for sublayer, parts in masked.items():
            found: list[tuple[int, Tensor]] = []
            for first, part in parts:
                undo.callback(_record(part, first, found))
            hook = _joiner(sublayer, masks, found)
            undo.callback(attentions[sublayer].register_forward_hook(hook, with_kwargs=True).remove)
        yield masks


def masked_parts(module: nn.Module, first: int = 0) -> Iterator[tuple[int, LocalAttention]]:
    """Yield what computes soft masks in an attention, itself or its parts, each with the number of its first head."""
    if isinstance(module, ComposedAttention):
        starts = [at.start for at in module.ranges] if isinstance(module, GroupedAttention) else repeat(0)
        for start, part in zip(starts, module.members(), strict=False):
            yield from masked_parts(part, first + start)
    elif isinstance(module, LocalAttention) and any(isinstance(module, kind) for kind in MASKS):
        yield first, module


def _bell(module: GaussianAttention, prepared: Mapping[str, Tensor]) -> Tensor:
    """Return the Gaussian of a call, 0 where it is cut off; the first heads have none if only the last are local."""
    bell = prepared["bell"].exp()
    if module.cut:
        bell = bell.masked_fill(prepared["far"], 0)
    ordinary = torch.arange(module.num_heads, device=bell.device) < module.num_heads - module.local_heads
    return bell.masked_fill(ordinary[:, None, None], math.nan)


def _exponential(_: LocalAttention, bias: Tensor) -> Tensor:
    return bias.exp()


# Mechanism → the step that computes its soft mask, and the mask, broadcastable to B×H×T×S, from what the step returns.
# It multiplies the exponentiated scores (DMAN, Gaussians, ALiBi), the weights (MW, Gaussians) or local scores (AW).
MASKS: dict[type[LocalAttention], tuple[str, Callable[[Any, Any], Tensor]]] = {
    WindowAttention: ("soft_mask", lambda _, mask: mask),
    DynamicMaskAttention: ("score_bias", _exponential),
    GaussianAttention: ("prepare", _bell),
    LinearBiasAttention: ("score_bias", _exponential),
}


def _record(part: LocalAttention, first: int, found: list[tuple[int, Tensor]]) -> Callable[[], None]:
    """Add a part's first head and mask to ``found`` whenever it computes one. Returns what ends that."""
    step, read = next(entry for kind, entry in MASKS.items() if isinstance(part, kind))
    before, compute = vars(part).get(step), getattr(part, step)  # set by an enclosing collect_masks

    def recorded(*args: Any, **kwargs: Any) -> Any:
        result = compute(*args, **kwargs)
        mask = read(part, result).detach()
        found.append((first, mask.expand(-1, part.num_heads, -1, -1) if mask.dim() == 4 else mask[None]))
        return result

    def restore() -> None:
        vars(part).pop(step)
        if before is not None:
            vars(part)[step] = before

    vars(part)[step] = recorded
    return restore


def _joiner(sublayer: Sublayer, masks: dict[Sublayer, Tensor], found: list[tuple[int, Tensor]]) -> Any:
    """Return a forward hook that makes one tensor of the masks that an attention's parts have computed."""

    def join(module: Any, _: Any, kwargs: Mapping[str, Any], output: tuple[Tensor, Any]) -> None:
        if not found:
            return
        batch, (queries, keys) = output[0].size(1), found[0][1].shape[-2:]
        joint = found[0][1].new_full((batch, module.num_heads, queries, keys), math.nan)
        for first, mask in found:
            heads = joint[:, first : first + mask.size(1)]
            heads.copy_(torch.where(heads.isnan(), mask, heads * mask))
        if (future := kwargs.get("attn_mask")) is not None:
            hidden = future if future.dtype == torch.bool else future.isneginf()
            joint = torch.where(hidden & ~joint.isnan(), 0, joint)
        masks[sublayer] = joint
        found.clear()

    return join
