"""The measure of locality (Eq. 13 of Fan et al., NAACL 2021).

``attn_s[w] = 1/|D| Σ_X 1/T Σ_j Σ_{|k-j| ≤ w} s[j,k]``, where s is a sublayer's attention averaged over heads, D the
split, and T the number of tokens of a sentence X: sub-words and the end-of-sentence symbol, which is the first token of
the decoder's input. All sentences have the same weight, whatever their length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import UsageError
from ...grammar.placement import parse_layers
from ..attention_weights import STACKS, Sublayer, collect_weights, self_attentions
from ..evaluation import Split, Trained, padding_masks, to_device, with_progress


def share_within(weights: Tensor, padding: Tensor | None, windows: Sequence[int]) -> Tensor:
    """Return the share of each sentence's attention within w positions of the query, B×W in fp64.

    The share is ``1/T Σ_j Σ_{|k-j| ≤ w} s[j,k]``; its mean over the sentences of a data set is Eq. 13. It is NaN for a
    sentence that is only padding.

    Args:
        weights: B×T×T, averaged over heads; the weight of key k (last dimension) for query j.
        padding: B×T, True = padding, on any side; None = no padding. Padded keys are left out.
        windows: the W values of w, each 0 or more.

    Raises ValueError for weights that are not square and for a negative window.
    """
    if weights.dim() != 3 or weights.size(1) != weights.size(2):
        raise ValueError(f"weights of self-attention are B×T×T, not {'×'.join(map(str, weights.shape))}")
    if any(window < 0 for window in windows):
        raise ValueError(f"a window is 0 or more positions to either side, not {min(windows)}")
    batch, length, _ = weights.shape
    if padding is None:
        padding = torch.zeros(batch, length, dtype=torch.bool, device=weights.device)
    weights = weights.double().masked_fill(padding[:, :, None] | padding[:, None, :], 0)
    # One cumulative sum over the keys serves all windows: the sum up to the last key minus that before the first.
    before = F.pad(weights.cumsum(dim=2), (1, 0))
    query = torch.arange(length, device=weights.device)[:, None]
    window = torch.tensor([min(w, length) for w in windows], dtype=torch.long, device=weights.device)
    first, end = (query - window).clamp(min=0), (query + window + 1).clamp(max=length)  # T×W
    inside = before.gather(2, end.expand(batch, -1, -1)) - before.gather(2, first.expand(batch, -1, -1))
    return inside.sum(dim=1) / (~padding).sum(dim=1, keepdim=True)


@dataclass(frozen=True)
class Locality:
    """Result of :func:`measure`.

    Args:
        windows: the values of w.
        shares: the share of each sublayer for each window, from 0 to 1.
        sentences: number of sentences of the split.
        tokens: number of tokens of each stack's input.
    """

    windows: tuple[int, ...]
    shares: dict[Sublayer, list[float]]
    sentences: int
    tokens: dict[str, int]


def measure(
    trained: Trained,
    split: Split,
    attentions: Mapping[Sublayer, nn.Module],
    windows: Sequence[int],
    *,
    label: str = "",
) -> Locality:
    """Return Eq. 13 for these self-attentions of the model over a whole split. ``label`` is shown with the progress.

    Raises UsageError for a split without its target side, and RuntimeError if a sentence of the split was not among the
    batches, or came twice.
    """
    model, zero = trained.model, torch.zeros((), device=trained.device)
    totals: dict[Sublayer, Tensor] = {}  # in the order in which the sublayers run
    tokens = {stack: zero.long() for stack in STACKS}
    seen: list[int] = []
    progress = with_progress(split, label)
    with collect_weights(attentions) as weights, torch.inference_mode():
        for batch in progress:
            seen += batch["id"].tolist()
            sample = to_device(batch, trained.device)
            if "prev_output_tokens" not in sample["net_input"]:
                raise UsageError(f"{split.name} has no target side, which the model reads beside the source")
            model(**sample["net_input"], features_only=True)
            padding = padding_masks(model, sample["net_input"])
            for sublayer, attention in weights.items():
                shares = share_within(attention, padding[sublayer.stack], windows)
                totals[sublayer] = totals.get(sublayer, zero) + shares.sum(dim=0)
            for stack, mask in padding.items():
                tokens[stack] = tokens[stack] + (~mask).sum()
            progress.log({"sentences": len(seen)})
    if not len(seen) == len(set(seen)) == split.sentences:
        raise RuntimeError(f"{len(seen)} sentences were read, {len(set(seen))} different, of {split.sentences}")
    means = {sublayer: (total / split.sentences).tolist() for sublayer, total in totals.items()}
    return Locality(tuple(windows), means, split.sentences, {stack: int(count) for stack, count in tokens.items()})


def select(trained: Trained, stacks: Sequence[str], layers: str) -> dict[Sublayer, nn.Module]:
    """Return the self-attentions in ``layers`` (such as ``1,3,6``, ``1-3`` or ``all``) of each stack.

    Raises UsageError for a layer beyond a stack, and for layers without self-attention.
    """
    depth = {stack: len(getattr(trained.model, stack).layers) for stack in stacks}
    chosen = {stack: parse_layers(layers, "--layers", range(depth[stack]), depth[stack]) for stack in stacks}
    found = self_attentions(trained.model, stacks)
    found = {sublayer: module for sublayer, module in found.items() if sublayer.layer - 1 in chosen[sublayer.stack]}
    if not found:
        raise UsageError(f"--layers {layers}: {trained.architecture} has no self-attention there ({', '.join(stacks)})")
    return found
