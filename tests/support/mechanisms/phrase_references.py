"""Slow references for phrases, from the equations of Hao et al. 2019 and Shen et al. 2019, word by word, in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


def attention_rows(q: Tensor, keys: list[Tensor], values: list[Tensor]) -> Tensor:
    """Compute ATT(q, K) V for one query: the softmax of its scaled dot products with the keys, times their values.

    Without keys it is 0.
    """
    if not keys:
        return torch.zeros_like(q)
    energies = torch.stack([(q * key).sum() / math.sqrt(q.numel()) for key in keys])
    weights = torch.exp(energies - energies.max())
    weights = weights / weights.sum()
    return sum(w * value for w, value in zip(weights, values, strict=True))


def ngrams(words: int, n: int) -> list[list[int]]:
    """Return the words of each adjacent n-gram; the last may be shorter."""
    return [list(range(start, min(start + n, words))) for start in range(0, words, n)]


def of_lengths(lengths: list[int]) -> list[list[int]]:
    """Return the words of each phrase from the phrases' lengths."""
    phrases, word = [], 0
    for length in lengths:
        phrases.append(list(range(word, word + length)))
        word += length
    return phrases


def lstm(inputs: list[Tensor], W: Tensor, U: Tensor, b: Tensor) -> list[Tensor]:
    """Compute the states of an LSTM from zero: W is C×4h, U is h×4h, b is 4h, in the order f, i, o, ĉ."""
    size = U.size(0)
    h = c = torch.zeros(size, dtype=torch.float64)
    states = []
    for x in inputs:
        f, i, o, candidate = (x @ W + h @ U + b).split(size)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(candidate)
        h = torch.sigmoid(o) * torch.tanh(c)
        states.append(h)
    return states


def cumax(z: Tensor, chunk: int) -> Tensor:
    """Compute the running sum of the softmax, each value for ``chunk`` channels (Eq. 6 of Shen et al. 2019)."""
    shares, total, values = z.softmax(-1), 0.0, []
    for share in shares:
        total = total + share
        values += [total] * chunk
    return torch.stack(values)


def on_lstm(inputs: list[Tensor], W: Tensor, U: Tensor, b: Tensor, chunk: int) -> list[Tensor]:
    """Compute the states of an ON-LSTM from zero, Eq. 4-15 of Shen et al. 2019; gates f, i, o, ĉ, f̃, ĩ."""
    size = U.size(0)
    masters = size // chunk
    h = c = torch.zeros(size, dtype=torch.float64)
    states = []
    for x in inputs:
        f, i, o, candidate, mf, mi = (x @ W + h @ U + b).split([size] * 4 + [masters] * 2)
        f, i, o = torch.sigmoid(f), torch.sigmoid(i), torch.sigmoid(o)
        master_forget = cumax(mf, chunk)  # Eq. 9
        master_input = 1 - cumax(mi, chunk)  # Eq. 10
        overlap = master_forget * master_input  # Eq. 11
        f_hat = f * overlap + (master_forget - overlap)  # Eq. 12
        i_hat = i * overlap + (master_input - overlap)  # Eq. 13
        c = f_hat * c + i_hat * torch.tanh(candidate)  # Eq. 14
        h = o * torch.tanh(c)  # Eq. 15
        states.append(h)
    return states


def compose(words: Tensor, name: str, p: Mapping[str, Tensor], head: int) -> Tensor:
    """Compute Com of one phrase from its words L×C (Eq. 8)."""
    if name == "max":
        return words.max(dim=0).values
    if name == "lstm":
        W, U, b = (p[f"composition.recurrence.{key}"][head] for key in ("input_weight", "hidden_weight", "bias"))
        return lstm(list(words), W, U, b)[-1] @ p["composition.output_weight"][head]
    query = words.max(dim=0).values @ p["composition.query_weight"][head]
    keys = [word @ p["composition.key_weight"][head] for word in words]
    return attention_rows(query, keys, list(words))


def interact(phrases: list[Tensor], name: str, p: Mapping[str, Tensor], head: int, chunk: int) -> list[Tensor]:
    """Compute Rec of the phrases of a sentence (Eq. 11)."""
    if name == "none":
        return phrases
    W, U, b = (p[f"interaction.recurrence.{key}"][head] for key in ("input_weight", "hidden_weight", "bias"))
    states = lstm(phrases, W, U, b) if name == "lstm" else on_lstm(phrases, W, U, b, chunk=chunk)
    return [state @ p["interaction.output_weight"][head] for state in states]


def mgsa(
    x: Tensor,
    partitions: list[list[list[int]] | None],
    composition: str,
    interaction: str,
    chunk: int,
    p: Mapping[str, Tensor],
) -> tuple[Tensor, list[list[Tensor]]]:
    """Compute MG-SA of one sentence x, T×C (Eq. 4-8, 11); ``partitions``: each head's phrases, None in a word head.

    p: the module's parameters. Returns the output T×C, and the composed phrases of each head of phrases.
    """
    heads, channels = len(partitions), x.size(1)
    width = channels // heads
    by_head: list[Tensor] = []
    composed: list[list[Tensor]] = []
    for h, partition in enumerate(partitions):
        rows = slice(h * width, (h + 1) * width)
        memory = list(x)
        if partition is not None:
            phrases = [compose(x[words], composition, p, len(composed)) for words in partition]
            memory = interact(phrases, interaction, p, len(composed), chunk=chunk)
            composed.append(phrases)
        queries = [word @ p["q_proj.weight"][rows].T + p["q_proj.bias"][rows] for word in x]
        keys = [vector @ p["k_proj.weight"][rows].T + p["k_proj.bias"][rows] for vector in memory]
        values = [vector @ p["v_proj.weight"][rows].T + p["v_proj.bias"][rows] for vector in memory]
        by_head.append(torch.stack([attention_rows(query, keys, values) for query in queries]))
    joined = torch.cat(by_head, dim=1)
    return joined @ p["out_proj.weight"].T + p["out_proj.bias"], composed


def tag_loss(phrases: list[Tensor], tags: list[int | None], W: Tensor, b: Tensor) -> Tensor:
    """Compute L_tag of one head's phrases (Eq. 9, 10), without those that have no tag."""
    total = torch.zeros((), dtype=torch.float64)
    for g, tag in zip(phrases, tags, strict=True):
        if tag is not None:
            total = total - torch.log((W @ g + b).softmax(-1)[tag])
    return total
