"""Beam search and sampling over a batch, with the hypotheses of fairseq's ``SequenceGenerator``.

Each step takes the 2·beam best continuations of a sentence, ends those with </s> among the best ``beam``, and goes on
with the best others. A sentence leaves the batch when ``beam`` hypotheses have ended. What was chosen is kept step by
step, with a reference to what it continues: no step copies what came before, and none loops over sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import UsageError
from ..ranges import MOST, check_option
from .dictionary import EOS, PAD, UNK
from .model import Memory, Model

#: The least and the greatest value of options; beyond them a score may not be finite.
BOUNDS = {"beam": (1, MOST), "lenpen": (-10, 10), "temperature": (1 / MOST, MOST)}
CACHED = 1 << 17  # numbers that a core's cache holds
CHUNK = 64  # words of which the best is found before the words themselves are compared


@dataclass(frozen=True)
class Options:
    """Options of the search, by the names and with the defaults of fairseq-generate.

    Args:
        beam: hypotheses a sentence.
        nbest: hypotheses that are returned, at most the beam.
        lenpen: scores are divided by the length to this power.
        unkpen: subtracted from the score of an unknown word.
        min_len: the least number of words before the end.
        max_len_a, max_len_b: the most words before the end are a·(source length of the batch) + b.
        temperature: divides the logits.
        unnormalized: do not divide scores by the length.
        sampling: draw words instead of searching for the best.
        sampling_topk: draw from so many most probable words; -1: from all.
        sampling_topp: draw from the fewest words whose probabilities add up to this; -1: from all.
    """

    beam: int = 5
    nbest: int = 1
    lenpen: float = 1.0
    unkpen: float = 0.0
    min_len: int = 1
    max_len_a: float = 0.0
    max_len_b: int = 200
    temperature: float = 1.0
    unnormalized: bool = False
    sampling: bool = False
    sampling_topk: int = -1
    sampling_topp: float = -1.0

    def __post_init__(self) -> None:
        """Raise UsageError for options that cannot be."""
        for each in fields(self):
            bounds = BOUNDS.get(each.name, (-MOST, MOST))
            check_option(f"--{each.name.replace('_', '-')}", getattr(self, each.name), *bounds)
        if not 1 <= self.nbest <= self.beam:
            raise UsageError(f"--nbest {self.nbest}: give 1 to {self.beam}, the beam")
        if self.sampling_topk > 0 and self.sampling_topp > 0:
            raise UsageError("--sampling-topk and --sampling-topp: choose one of them")
        if max(self.sampling_topk, self.sampling_topp) > 0 and not self.sampling:
            raise UsageError("--sampling-topk and --sampling-topp: give --sampling as well")

    def longest(self, model: Model, length: int) -> int:
        """Return the most words of a translation, before its end, in a batch of sources with ``length`` tokens."""
        return min(int(self.max_len_a * length + self.max_len_b), model.sizes.max_target_positions - 1)


class Hypothesis(NamedTuple):
    """A translation: its tokens with the end, its score, and the log-probability of each token."""

    tokens: list[int]
    score: float
    token_scores: list[float]


class _Step(NamedTuple):
    """What a step chose for each row sentence·beam + hypothesis: words, sums of scores, and the rows they continue."""

    words: Tensor
    scores: Tensor
    parents: Tensor


@torch.inference_mode()
def search(
    model: Model,
    tokens: Tensor,
    options: Options,
    *,
    prefix: Tensor | None = None,
    phrases: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """Translate a batch. Returns the ``nbest`` hypotheses of each sentence, best first.

    Args:
        model: of :func:`fairseq_localattn.inference.load`.
        tokens: B×T, sentences with their ends, padded on either side.
        options: see :class:`Options`.
        prefix: B×P, the words that each translation begins with, padded on the right.
        phrases: see :meth:`Encoder.forward`.

    Raises UsageError for a beam of half of the dictionary or more, for a minimal length beyond the maximal one, for a
    prefix with the end of a sentence in it, for a source beyond learned positions, and for missing phrases.
    """
    longest = options.longest(model, tokens.size(1))
    if options.min_len > longest:
        raise UsageError(f"--min-len {options.min_len}: the longest translation has {longest} words")
    words = model.decoder.output_projection.weight.size(0)
    if 2 * options.beam >= words:
        raise UsageError(f"--beam {options.beam}: the dictionary has {words} words; give less than half of them")
    if prefix is not None and bool(prefix.eq(EOS).any()):
        raise UsageError("a prefix has the end of a sentence in it: leave it out")
    if tokens.size(0) == 0:
        return []
    most = model.sizes.max_source_positions
    if model.encoder.embed_positions is not None and (length := int(tokens.ne(PAD).sum(1).amax())) > most:
        raise UsageError(f"a source has {length} tokens, and the model has learned {most} positions")
    return _Search(model, tokens, options, longest).run(model.encoder(tokens, phrases), prefix)


class _Search:
    """The search of one batch of B sentences.

    What is kept of a hypothesis has the row sentence·beam + its place in the beam. The decoder's rows are those of
    sentences in the batch, hypothesis by hypothesis: see :mod:`core.paths`.
    """

    def __init__(self, model: Model, tokens: Tensor, options: Options, longest: int) -> None:
        self.decoder, self.options, self.longest = model.decoder, options, longest
        count, beam, self.device = tokens.size(0), options.beam, tokens.device
        self.steps: list[_Step] = []
        # Of the hypotheses that have ended: scores, sums of scores, steps of their ends, and the rows they continue.
        self.scores, self.sums = (
            torch.full((count, beam), -torch.inf, device=self.device, dtype=torch.float) for _ in range(2)
        )
        self.ends, self.rows = (torch.zeros(count, beam, dtype=torch.long, device=self.device) for _ in range(2))
        self.counts = torch.zeros(count, dtype=torch.long, device=self.device)

    def run(self, memory: Memory, prefix: Tensor | None) -> list[list[Hypothesis]]:
        """Return the hypotheses of all sentences."""
        beam = self.options.beam
        alive = torch.arange(len(self.counts), device=self.device)  # sentences in the batch
        state = self.decoder.start()
        words, scores = torch.full_like(alive, EOS), torch.zeros_like(alive, dtype=torch.float)
        ignored = torch.zeros(len(alive), beam, dtype=torch.bool, device=self.device)  # ended rows, in sampling
        places = 1  # hypotheses of a sentence; from the second step on ``beam``
        for step in range(self.longest + 1):
            logits = self.decoder(words, step, memory, state).float()
            logits, normaliser = self._prepare(logits, step, None if prefix is None else prefix[alive])
            base = (scores - normaliser).view(places, -1).T
            best, words, place = self._sample(logits, base) if self.options.sampling else _best(logits, base, 2 * beam)
            ends = words.eq(EOS) & best.ne(-torch.inf)
            ends[:, :beam] &= ~ignored
            parents = alive[:, None] * beam + place
            finished = self._end(ends[:, :beam], best, parents, alive=alive, step=step)
            if step == self.longest or bool(finished.all()):
                break
            kept = None
            if bool(finished.any()):
                kept = (~finished).nonzero().squeeze(1)
                ends, best, words, place = (x[kept] for x in (ends, best, words, place))
                parents, ignored, alive = parents[kept], ignored[kept], alive[kept]
            # The first ``beam`` that do not end.
            ends[:, :beam] |= ignored
            order = torch.arange(ends.size(1), device=self.device) + ends.size(1) * ends
            order, chosen = order.topk(beam, dim=1, largest=False)
            ignored = order >= ends.size(1)
            words, best = words.gather(1, chosen), best.gather(1, chosen)
            self._keep(words, best, parents.gather(1, chosen), alive=alive)
            words, scores = words.T.flatten(), best.T.flatten()
            sentences = torch.arange(len(alive), device=self.device) if kept is None else kept
            rows = (place.gather(1, chosen).T * base.size(0) + sentences).flatten()
            if len(rows) != len(logits) or not torch.equal(rows, torch.arange(len(rows), device=self.device)):
                self.decoder.reorder(state, rows, kept)
            places = beam
        return self._hypotheses()

    def _prepare(self, logits: Tensor, step: int, prefix: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the logits with the words that may not follow at -inf, and the logarithm of what normalises them."""
        options = self.options
        if options.temperature != 1:
            logits = logits / options.temperature
        normaliser = _logsumexp(logits)
        logits[:, PAD] = -torch.inf
        if options.unkpen:
            logits[:, UNK] -= options.unkpen
        if step >= self.longest:
            _only(logits, torch.full_like(normaliser, EOS, dtype=torch.long), slice(None))
        elif prefix is not None and step < prefix.size(1):
            forced = prefix[:, step].repeat(len(logits) // len(prefix))
            _only(logits, forced, forced.ne(PAD))
        elif step < options.min_len:
            logits[:, EOS] = -torch.inf
        return logits, normaliser

    def _sample(self, logits: Tensor, base: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draw the next word of each row. Returns sums of scores, words and places in the beam, B×beam each."""
        options, (sentences, places) = self.options, base.shape
        logits = logits.unflatten(0, (places, sentences)).transpose(0, 1).flatten(0, 1)
        found, words = logits, None
        if options.sampling_topk > 0:
            found, words = logits.topk(min(options.sampling_topk, logits.size(1)), dim=1)
        elif options.sampling_topp > 0:
            found, words = logits.sort(dim=1, descending=True)
            before = found.softmax(-1)
            found = found.masked_fill(before.cumsum(-1) - before >= max(options.sampling_topp, 1 / MOST), -torch.inf)
        drawn = found.softmax(-1).multinomial(options.beam // places, replacement=True)
        drawn = drawn if words is None else words.gather(1, drawn)
        best = (logits.gather(1, drawn).view(sentences, places, -1) + base[..., None]).flatten(1)
        place = torch.arange(options.beam, device=self.device) // (options.beam // places)
        return best, drawn.view(sentences, -1), place.expand(sentences, -1)

    def _end(self, ends: Tensor, best: Tensor, parents: Tensor, *, alive: Tensor, step: int) -> Tensor:
        """Store the hypotheses of ``alive`` sentences that end. Returns which sentences have a whole beam of them."""
        counts = self.counts[alive]
        if bool(ends.any()):
            slots = counts[:, None] + ends.cumsum(1) - 1
            row, column = (ends & (slots < self.options.beam)).nonzero(as_tuple=True)
            at = alive[row], slots[row, column]
            sums = best[row, column]
            power = 1.0 if self.options.unnormalized else (step + 1) ** self.options.lenpen
            self.scores[at], self.sums[at] = sums / power, sums
            self.ends[at], self.rows[at] = step, parents[row, column]
            counts = (counts + ends.sum(1)).clamp(max=self.options.beam)
            self.counts[alive] = counts
        return counts == self.options.beam

    def _keep(self, words: Tensor, scores: Tensor, parents: Tensor, *, alive: Tensor) -> None:
        """Store what a step chose for ``alive`` sentences, sentences×beam."""
        rows = (alive[:, None] * self.options.beam + torch.arange(self.options.beam, device=self.device)).flatten()
        size = self.scores.numel()
        new = words, scores, parents
        self.steps.append(_Step(*(x.new_zeros(size).index_copy_(0, rows, x.flatten()) for x in new)))

    def _hypotheses(self) -> list[list[Hypothesis]]:
        """Follow all hypotheses back from their ends."""
        ends, rows = self.ends.flatten(), self.rows.flatten()
        length = int(ends.max()) + 1
        tokens = ends.new_full((len(ends), length), EOS)
        sums = self.sums.flatten()[:, None].repeat(1, length)
        for step in reversed(range(length - 1)):
            before = step < ends
            tokens[:, step] = torch.where(before, self.steps[step].words[rows], tokens[:, step])
            sums[:, step] = torch.where(before, self.steps[step].scores[rows], sums[:, step])
            rows = torch.where(before, self.steps[step].parents[rows], rows)
        sums[:, 1:] -= sums[:, :-1].clone()
        order = self.scores.sort(dim=1, descending=True, stable=True).indices[:, : self.options.nbest]
        order = order + torch.arange(len(order), device=self.device)[:, None] * self.options.beam
        found, scores, lengths = tokens.tolist(), self.scores.flatten().tolist(), (ends + 1).tolist()
        of_tokens, counts = sums.tolist(), self.counts.tolist()
        return [
            [Hypothesis(found[n][: lengths[n]], scores[n], of_tokens[n][: lengths[n]]) for n in best[:count]]
            for best, count in zip(order.tolist(), counts, strict=True)
        ]


def _logsumexp(logits: Tensor) -> Tensor:
    """Return the logarithm of the summed exponentials of each row; on a CPU by rows that fit its cache."""
    rows = max(1, CACHED // logits.size(1)) if logits.device.type == "cpu" else len(logits)
    return torch.cat([part.logsumexp(-1) for part in logits.split(rows)])


def _only(logits: Tensor, words: Tensor, rows: Tensor | slice) -> None:
    """Leave one word possible in some rows."""
    kept = logits.gather(1, words[:, None])
    logits[rows] = -torch.inf
    logits[rows] = logits[rows].scatter(1, words[rows, None], kept[rows])


def _best(logits: Tensor, base: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ``count`` greatest ``logits + base`` of each sentence, their words, and their places in the beam.

    The best word of each :data:`CHUNK` is found first. Only words of the best chunks are compared with each other.

    Args:
        logits: (places·sentences)×V.
        base: sentences×places, for all words of a row.
    """
    (sentences, places), size = base.shape, logits.size(1)
    chunks, rest = divmod(size, CHUNK)
    if chunks * places < 2 * count:
        best, at = (logits.view(places, -1, size).transpose(0, 1) + base[..., None]).flatten(1).topk(count)
        return best, at % size, at // size
    highest = logits[:, : chunks * CHUNK].unflatten(1, (chunks, CHUNK)).amax(-1)
    if rest:
        highest = torch.cat([highest, logits[:, -rest:].amax(-1, keepdim=True)], dim=1)
        chunks += 1
    highest = highest.view(places, -1, chunks).transpose(0, 1) + base[..., None]
    chosen = highest.flatten(1).topk(count, sorted=False).indices
    place, words = chosen // chunks, (chosen % chunks)[..., None] * CHUNK + torch.arange(CHUNK, device=logits.device)
    inside, words = words < size, words.clamp(max=size - 1)
    rows = place * sentences + torch.arange(sentences, device=logits.device)[:, None]
    values = logits.take(rows[..., None] * size + words)
    values = (values + base.gather(1, place)[..., None]).masked_fill(~inside, -torch.inf)
    best, at = values.flatten(1).topk(count)
    return best, words.flatten(1).gather(1, at), place.gather(1, at // CHUNK)
