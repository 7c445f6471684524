"""Attention by loops over sentences, heads, queries and keys, from the papers' equations, in float64.

No code is shared with the package. T queries and S keys of a sentence, H heads of D channels, C = H·D. A mechanism
states terms of its heads (:data:`TERMS`), and compositions combine them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from fairseq_localattn.core.composed import GroupedAttention, JointAttention
from fairseq_localattn.mechanisms.gaussian import GaussianProductAttention

ACTIVATIONS = {"relu": torch.relu, "gelu": torch.nn.functional.gelu}
Pair = Callable[[int, int], Any]  # of a query's and a key's position


@dataclass
class Sentence:
    """The inputs of the queries, T×C, and of the keys; which keys exist, S, False at padding."""

    x: Tensor
    memory: Tensor
    exists: Tensor
    causal: bool

    def keys(self, i: int) -> list[int]:
        """Return the keys that exist and, in the causal case, are not ahead of query i."""
        return [j for j in range(len(self.exists)) if self.exists[j] and not (self.causal and j > i)]


@dataclass
class Head:
    """One head: q T×D, k and v S×D, whether a key is seen, and what is added to or multiplies what."""

    q: Tensor
    k: Tensor
    v: Tensor
    sees: list[Pair] = field(default_factory=list)
    bias: list[Pair] = field(default_factory=list)  # added to the scaled score
    factors: list[Callable[[int], Tensor]] = field(default_factory=list)  # of the weights of a query, S
    values: list[Pair] = field(default_factory=list)  # added to the value of a key, D
    base: float | None = None  # of the angles by which queries and keys are rotated
    area: list[Head] = field(default_factory=list)  # whose keys and values are attended to, if not its own
    renormalise: bool = False

    def attend(self, s: Sentence) -> tuple[Tensor, Tensor]:
        """Return the attended values T×D, and the weights T×S; both are 0 where a query sees no key."""
        rows, weights = [], []
        for i in range(len(self.q)):
            keys, area = [j for j in s.keys(i) if all(see(i, j) for see in self.sees)], self.area or [self]
            row, weight = torch.zeros_like(self.v[0]), self.q.new_zeros(len(self.k))
            if keys:
                q = rotated(self.q[i], i, self.base) / math.sqrt(len(self.q[i]))
                scores = [
                    q @ rotated(h.k[j], j, self.base) + sum(b(i, j) for b in self.bias) for h in area for j in keys
                ]
                share = torch.stack(scores).softmax(0).view(len(area), len(keys))
                for factor in self.factors:
                    share = share * factor(i)[keys]
                share = share / share.sum() if self.renormalise else share
                seen = torch.stack(
                    [torch.stack([h.v[j] + sum(a(i, j) for a in self.values) for j in keys]) for h in area]
                )
                row = (share[..., None] * seen).sum((0, 1))
                weight = weight.index_add(0, torch.tensor(keys), share.sum(0))
            rows.append(row)
            weights.append(weight)
        return torch.stack(rows), torch.stack(weights)


def project(layer: Any, x: Tensor) -> Tensor:
    return x @ layer.weight.T + (0 if layer.bias is None else layer.bias)


def split(layer: Any, x: Tensor, heads: int) -> tuple[Tensor, ...]:
    """Return the projections of a linear layer by head, T×D each."""
    return project(layer, x).chunk(heads, dim=-1)


def expected(module: Any, x: Tensor, memory: Tensor, padding: Tensor, causal: bool = False) -> tuple[Tensor, Tensor]:
    """Return a module's output T×B×C, and its weights H×B×T×S, from inputs T×B×C and S×B×C and the padding B×S."""
    sentences = [Sentence(x[:, b], memory[:, b], ~padding[b], causal) for b in range(x.size(1))]
    outputs, weights = zip(*(_of_sentence(module, s) for s in sentences), strict=True)
    return torch.stack(outputs, dim=1), torch.stack(weights, dim=1)


def _of_sentence(module: Any, s: Sentence) -> tuple[Tensor, Tensor]:
    given = ((module.q_proj, s.x), (module.k_proj, s.memory), (module.v_proj, s.memory))
    heads = [Head(*tensors) for tensors in zip(*(split(*each, module.num_heads) for each in given), strict=True)]
    if module.kind == "block":
        found = block_attention(module, heads, s)
    else:
        state(module, heads, s)
        found = [head.attend(s) for head in heads]
    values, weights = zip(*found, strict=True)
    return project(module.out_proj, activated(module, torch.cat(values, dim=-1))), torch.stack(weights)


def state(part: Any, heads: list[Head], s: Sentence) -> None:
    """Add the terms of a mechanism, or of those of a composition, to its heads."""
    if isinstance(part, JointAttention):
        for each in part.parts:
            state(each, heads, s)
    elif isinstance(part, GroupedAttention):
        for each, at in zip(part.parts, part.ranges, strict=True):
            state(each, heads[at], s)
    else:
        for h, head in enumerate(heads):
            TERMS[part.kind](part, head, h, heads, s)


def activated(part: Any, joined: Tensor) -> Tensor:
    """Apply the activations of a module's parts, and its own, to its joined heads T×C."""
    if isinstance(part, GroupedAttention):
        pieces = joined.split([each.inner_dim for each in part.parts], dim=-1)
        joined = torch.cat([activated(each, x) for each, x in zip(part.parts, pieces, strict=True)], dim=-1)
    for each in part.parts if isinstance(part, JointAttention) else ():
        joined = activated(each, joined)
    return ACTIVATIONS.get(part.activation, lambda x: x)(joined)


# ---------------------------------------------------------------------- windows and scores of positions
# Each adds the terms of head h among the heads of a mechanism.


def mixed(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """Eq. 8-11 of Cui et al. 2019."""
    sees: dict[str, Pair] = {
        "global": lambda i, j: True,
        "local": lambda i, j: i - part.window <= j <= i + part.window,
        "forward": lambda i, j: i <= j,
        "backward": lambda i, j: i >= j,
    }
    head.sees.append(sees[part.head_kinds[h]])


def csan(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """Eq. 4-9 of Yang et al. 2019. Heads and positions that do not exist are not in the union (Eq. 7)."""
    head.sees.append(lambda i, j: abs(i - j) <= part.window // 2)
    head.area = heads[max(0, h - part.head_span // 2) : h + part.head_span // 2 + 1]


def sman(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """Eq. 11 of Fan et al. 2021. In SMAN_1 b = √L/2: L counts the words, if causal those up to the query."""

    def sees(i: int, j: int) -> bool:
        words = sum(bool(s.exists[w]) for w in range(len(s.exists)) if not (s.causal and w > i))
        return abs(i - j) <= (math.sqrt(words) / 2 if part.boundary is None else part.boundary)

    head.sees.append(sees)


def dman(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """Eq. 4 and 12 of Fan et al. 2021: weights are M exp(e) / Σ M exp(e), M = σ(x w + P + U) at least 1e-10."""
    nearest, farthest = 0 if part.causal else -part.max_distance, part.max_distance

    def log_mask(i: int, j: int) -> Tensor:
        P = part.distance_mask[max(nearest, min(farthest, i - j)) - nearest]
        return torch.sigmoid((s.x[i] * part.query_mask.weight[0]).sum() + P + part.head_mask[h]).clamp(min=1e-10).log()

    head.bias.append(log_mask)


def sinks(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """A sliding window, and the first words that exist."""
    first = next((j for j in range(len(s.exists)) if s.exists[j]), 0)
    near: Pair = lambda i, j: i - j < part.window if part.causal else abs(i - j) <= part.window / 2  # noqa: E731
    head.sees.append(lambda i, j: near(i, j) or j < first + part.sinks)


def alibi(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """Slopes of Press et al. 2022 for a number of heads that is a power of 2."""
    head.bias.append(lambda i, j: -(2 ** (-8 * (h + 1) / len(heads))) * abs(i - j))


def t5(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """A number for each bucket of distances and head."""
    sizes = part.buckets, part.max_distance, not part.causal
    head.bias.append(lambda i, j: part.position_bias[t5_bucket(j - i, *sizes), h])


def t5_bucket(distance: int, buckets: int, farthest: int, bidirectional: bool) -> int:
    """Return the bucket of j - i, as the text of Raffel et al. 2020 and their code have it, without a logarithm."""
    start = 0
    if bidirectional:
        buckets //= 2
        start, distance = (buckets if distance > 0 else 0), -abs(distance)
    apart, exact = max(0, -distance), buckets // 2
    if apart < exact:
        return start + apart
    # The last bucket whose border exact·(farthest/exact)^(n/(buckets - exact)) has been reached, in whole numbers.
    steps = buckets - exact
    reached = max(n for n in range(steps) if apart**steps >= exact ** (steps - n) * farthest**n)
    return start + exact + reached


def shaw(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """Eq. 3-5 of Shaw et al. 2018. Tables (H or 1)×(2k+1)×D."""
    most = part.max_distance

    def row(table: Tensor, i: int, j: int) -> Tensor:
        return table[h if len(table) > 1 else 0, min(most, max(-most, j - i)) + most]

    head.bias.append(lambda i, j: head.q[i] @ row(part.key_positions, i, j) / math.sqrt(len(head.q[i])))
    if part.value_positions is not None:
        head.values.append(lambda i, j: row(part.value_positions, i, j))


def rope(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """Rotations of queries and keys by their positions."""
    head.base = part.base


def rotated(x: Tensor, position: int, base: float | None) -> Tensor:
    """Rotate the pairs of channels of x, D, by the position."""
    if base is None:
        return x
    channels = []
    for c in range(0, len(x), 2):
        angle = position * base ** (-c / len(x))
        sine, cosine = math.sin(angle), math.cos(angle)
        channels += [x[c] * cosine - x[c + 1] * sine, x[c] * sine + x[c + 1] * cosine]
    return torch.stack(channels)


# ---------------------------------------------------------------------- learned windows


def window_mask(left: Tensor, right: Tensor, b: int) -> Tensor:
    """Compute m' of one query by Eq. 10 and 11 of Nguyen et al. 2020; b = 1 is Eq. 9. left, right: φ, n each.

    The n keys are those of the sentence, without padding.
    """
    n = left.numel()
    J = torch.zeros(n, n, dtype=left.dtype)
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            J[i - 1, j - 1] = 1 if i <= b * math.ceil(j / b) else 0
    return (left @ J) * (right @ J.T) + (right @ J) * (left @ J.T)


def diffwin(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """Eq. 12, 13 (MW) or 14-17 (AW) of Nguyen et al. 2020. Pointers are over the keys that the query may see."""
    queries = {n: split(part.get_submodule(f"{n}_q_proj"), s.x, len(heads))[h] for n in part.pairs}
    keys = {n: split(part.get_submodule(f"{n}_k_proj"), s.memory, len(heads))[h] for n in part.pairs}

    def score(name: str, i: int, j: int) -> Tensor:
        return (queries[name][i] * keys[name][j]).sum() / math.sqrt(len(head.q[i]))

    @cache
    def mask(i: int) -> Tensor:
        seen = s.keys(i)
        left, right = (torch.stack([score(name, i, j) for j in seen]).softmax(0) for name in ("left", "right"))
        found = window_mask(left, right, part.segment_size)
        return head.q.new_zeros(len(s.exists)).index_add(0, torch.tensor(seen), found)

    if "local" in part.pairs:
        head.bias.append(lambda i, j: score("local", i, j) * mask(i)[j])
    else:
        head.factors.append(mask)
        head.renormalise = part.renormalise


def gauss(part: Any, head: Head, h: int, heads: list[Head], s: Sentence) -> None:
    """A bell G = -2 ((j - p) / d)² over n visible keys, of which the first is f; it is added, or exp(G) is a factor.

    A cut closes the keys further than d from the centre p, but not the nearest one. The first heads have none.
    """
    h -= part.num_heads - part.local_heads
    if h < 0:
        return
    q, k = (torch.cat(x, dim=-1) for x in zip(*((each.q, each.k) for each in heads), strict=True))
    source, own = s.x if part.source == "input" else q, slice(h * part.head_dim, (h + 1) * part.head_dim)

    def predict(output: Any, hidden: Any, given: Tensor) -> Tensor:
        u = project(hidden, given)
        u = torch.tanh(u) if part.hidden == "tanh" else u
        if output.bias is None:  # one vector for all heads
            return torch.sigmoid((output.weight[0] * u[own]).sum())
        return torch.sigmoid((output.weight[h] * u).sum() + output.bias[h])

    def center(i: int, first: int, n: int) -> Any:
        if part.center == "self":
            return i
        share = predict(part.window_center, part.window_hidden, source[i])
        return first + (n - 1) * share if part.hidden == "tanh" else first - 1 + n * share

    def wide(i: int, keys: list[int]) -> Any:
        if isinstance(part.width, float):
            return part.width
        if part.width == "head":  # σ = w², 0.1 or more
            return 2 * (part.window_root[h] ** 2).clamp(min=0.1)
        if part.width == "query":
            return len(keys) * predict(part.window_width, part.window_hidden, source[i]) + 0.1
        return len(keys) * predict(part.window_width, part.window_keys, k[keys].mean(0)) + 0.1

    @cache
    def bell(i: int) -> tuple[Tensor, list[bool]]:
        keys, j = s.keys(i), torch.arange(len(s.exists), dtype=head.q.dtype)
        p, d = center(i, keys[0], len(keys)), wide(i, keys)
        apart = (j - p).abs()
        return -2 * ((j - p) / d) ** 2, (apart <= max(d, apart[keys].min())).tolist()

    if part.cut:
        head.sees.append(lambda i, j: bell(i)[1][j])
    if isinstance(part, GaussianProductAttention):
        head.factors.append(lambda i: torch.exp(bell(i)[0]))
    else:
        head.bias.append(lambda i, j: bell(i)[0][j])


TERMS: dict[str, Callable[[Any, Head, int, list[Head], Sentence], None]] = {
    "san": lambda *_: None,
    "mma": mixed,
    "csan": csan,
    "sman": sman,
    "dman": dman,
    "sinks": sinks,
    "alibi": alibi,
    "t5bias": t5,
    "relpos": shaw,
    "rope": rope,
    "mw": diffwin,
    "aw": diffwin,
    "gauss": gauss,
}


# ---------------------------------------------------------------------- not by terms of heads


def block_attention(part: Any, heads: list[Head], s: Sentence) -> list[tuple[Tensor, Tensor]]:
    """Compute Bi-BloSAN's attention as in CSAN: h + P e by head, and the weights inside of the blocks."""
    real = [t for t in range(len(s.exists)) if s.exists[t]]
    size = part.block_length or math.ceil(round((2 * len(real)) ** (1 / 3), 9))
    blocks = [real[a : a + size] for a in range(0, len(real), size)] if real else []
    of_block = {i: m for m, block in enumerate(blocks) for i in block}
    for head in heads:
        head.sees.append(lambda i, j: i in of_block and j in blocks[of_block[i]])
    found = [head.attend(s) for head in heads]
    if not blocks:
        return found
    h = [values for values, _ in found]
    z = project(part.block_score, torch.sigmoid(project(part.block_hidden, torch.cat(h, dim=-1))))  # T×H
    y = [torch.stack([z[block, a].softmax(-1) @ h[a][block] for block in blocks]) for a in range(len(heads))]
    joined, scale = torch.cat(y, dim=-1), math.sqrt(part.head_dim)
    queries = split(part.block_query, joined, len(heads))
    o = [torch.stack([(keys @ q / scale).softmax(-1) @ keys for q in qs]) for qs, keys in zip(queries, y, strict=True)]
    between = torch.cat(o, dim=-1)
    g = torch.sigmoid(project(part.block_gate, torch.cat([joined, between], dim=-1)))
    e = project(part.block_proj, g * between + (1 - g) * joined).chunk(len(heads), dim=-1)  # M×D each
    nothing = torch.zeros_like(e[0][0])
    added = [torch.stack([x[of_block[i]] if i in of_block else nothing for i in range(len(s.x))]) for x in e]
    return [(values + more, weights) for (values, weights), more in zip(found, added, strict=True)]
