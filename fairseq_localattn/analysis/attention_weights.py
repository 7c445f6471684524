"""The weights of a Transformer's self-attentions, read by hooks while the model runs; no forward is changed.

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

from ..attention import LocalAttention
from ..errors import UsageError

STACKS = ("encoder", "decoder")


@dataclass(frozen=True)
class Sublayer:
    """Where a self-attention stands.

    ``stack``: encoder or decoder; ``layer``: from 1, the lowest of those that are there; ``name``: of the module in its
    layer (``self_attn``, ``dman``); ``kind``: of the mechanism (``san``, ``dman``, ``mma``).
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
    found: dict[Sublayer, nn.Module] = {}
    for stack in stacks:
        layers = getattr(model, stack).layers
        for number in range(len(layers)):  # by index: iteration over a stack with LayerDrop leaves layers out
            for path, module in layers[number].named_modules():
                if isinstance(module, (LocalAttention, MultiheadAttention)) and module.self_attention:
                    kind = getattr(module, "kind", "san")
                    found[Sublayer(stack, number + 1, path.rpartition(".")[2], kind)] = module
    return found


@contextmanager
def collect_weights(attentions: Mapping[Sublayer, nn.Module]) -> Iterator[dict[Sublayer, Tensor]]:
    """While it is open, each forward pass leaves the weights of these attentions in the dictionary that it gives.

    A value is B×T×S, averaged over heads, before dropout (fairseq's own attention: after; run it in evaluation mode),
    in the order in which the sublayers ran; the next pass replaces it. The outputs remain what they were, to rounding:
    attention that returns its weights cannot take the fused kernel. All hooks are gone at the end.

    Raises UsageError for an attention that gives no weights.
    """
    weights: dict[Sublayer, Tensor] = {}

    def ask(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return args, {**kwargs, "need_weights": True}

    def reader(sublayer: Sublayer) -> Any:
        def read(_: nn.Module, args: tuple[Any, ...], output: tuple[Tensor, Tensor | None]) -> None:
            if output[1] is None:
                where = f"{sublayer.name} in {sublayer.stack} layer {sublayer.layer}"
                raise UsageError(f"{where}: this attention does not tell its weights (xFormers does not)")
            weights[sublayer] = output[1]

        return read

    handles = []
    try:
        for sublayer, attention in attentions.items():
            handles.append(attention.register_forward_pre_hook(ask, with_kwargs=True))
            handles.append(attention.register_forward_hook(reader(sublayer)))
        yield weights
    finally:
        for handle in handles:
            handle.remove()
