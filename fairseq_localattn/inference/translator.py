"""Raw text in, raw text out, by a trained model and the tokeniser and subwords of its training."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import UsageError
from .dictionary import PAD, UNK
from .linear import to_int8, to_onednn
from .load import Trained, load
from .search import Hypothesis, Options, search
from .text import OPTIONS, Text, chosen, text_of

LONG = "pieces", "beginning", "empty"
FEWEST_WORDS = 3  # from this many words on, a line of mostly unknown words is reported


@dataclass(frozen=True)
class Translator:
    """A trained model that translates raw text: :meth:`load` it once, then call :meth:`translate` or :meth:`best`.

    Args:
        trained: the model and its dictionaries.
        text: the steps between lines and words.
        options: of the search.
        max_tokens: of a batch, with its padding.
        long: of a line that is too long, translate ``pieces`` or its ``beginning``, or leave it ``empty``. None: its
            beginning after a training with --truncate-source, or else pieces.
    """

    trained: Trained
    text: Text
    options: Options = Options()
    max_tokens: int = 4000
    long: str | None = None

    def __post_init__(self) -> None:
        """Raise UsageError for an unknown ``long``."""
        if self.long not in (None, *LONG):
            raise UsageError(f"long={self.long!r}: choose from {', '.join(LONG)}")

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        data: str | os.PathLike[str] | None = None,
        *,
        int8: bool = False,
        **given: Any,
    ) -> Translator:
        """Return a translator from a checkpoint of fairseq-train, or from a folder of export.

        Args:
            path, data: as of :func:`fairseq_localattn.inference.load`.
            int8: compute with weights of 8 bits.
            given: ``options``, ``max_tokens`` and ``long`` of this class; ``source_lang``, ``target_lang``,
                ``tokenizer``, ``lowercase``, ``bpe``, ``bpe_codes`` and ``sentencepiece_model``, by default as the
                training says.

        Raises UsageError, one line, for what cannot be read and for a model whose phrases come from trees.
        """
        own = {name: given.pop(name) for name in ("options", "max_tokens", "long") if name in given}
        languages = {name: given.pop(name, None) for name in ("source_lang", "target_lang")}
        if unknown := given.keys() - set(OPTIONS):
            raise TypeError(f"no argument {', '.join(sorted(unknown))}")
        trained = load(path, data, **languages)
        if trained.model.encoder.of_trees:
            raise UsageError(f"{path}: its phrases come from trees: use search(…, phrases=…), or fairseq-generate")
        (to_int8 if int8 else to_onednn)(trained.model)
        return cls(trained, text_of(chosen(trained.options, given), trained.source.words), **own)

    def best(self, lines: Sequence[str]) -> list[str]:
        """Return the best translation of each line."""
        return [found[0][0] for found in self.translate(lines)]

    def translate(self, lines: Sequence[str], first: int = 1, bar: Any = None) -> list[list[tuple[str, float]]]:
        """Return the ``nbest`` translations of each line with their scores.

        Where the search has fewer, empty ones of -inf stand in their places. The first one of an empty line has 0.

        Lines are batched by length and returned in their order. Problems of a line are reported on stderr with its
        number; the first line has the number ``first``. Raises TypeError for one text, whose letters would be lines.
        """
        if isinstance(lines, str):
            raise TypeError("lines: give a list of lines, not one text")
        parts: list[tuple[int, list[int]]] = []  # the line of each part, and its tokens
        for number, line in enumerate(lines):
            parts += [(number, part) for part in self._parts(line, first + number)]
        found: list[list[Hypothesis]] = [[] for _ in parts]
        if bar is not None:
            bar.update(len(lines) - len({number for number, _ in parts}))  # empty lines
        for batch in self._batches([len(tokens) for _, tokens in parts]):
            width = max(len(parts[n][1]) for n in batch)
            tokens = torch.tensor([[PAD] * (width - len(parts[n][1])) + parts[n][1] for n in batch])
            longest = self.options.longest(self.trained.model, width)
            own = longest == self.trained.model.sizes.max_target_positions - 1
            cut = f"its translation is cut after {longest} words, or ends there"
            cut += ": the model writes no more" if own else ": see --max-len-b"
            for n, best in zip(batch, search(self.trained.model, tokens, self.options), strict=True):
                found[n] = best
                if best and len(best[0].tokens) > longest:
                    tell(f"line {first + parts[n][0]}: {cut}")
            if bar is not None:  # a line counts with its first part
                bar.update(sum(n == 0 or parts[n][0] != parts[n - 1][0] for n in batch))
        of_lines: list[list[list[Hypothesis]]] = [[] for _ in lines]
        for (number, _), best in zip(parts, found, strict=True):
            of_lines[number].append(best)
        return [self._joined(best) for best in of_lines]

    def _parts(self, line: str, number: int) -> Iterator[list[int]]:
        """Yield the tokens of each part of a line: one, none if it is empty, as :attr:`long` says if it is too long."""
        words, most = self.text.words(line), self.trained.model.sizes.max_source_positions
        if not words:
            return
        tokens = self.trained.source.encode(words)
        unknown = tokens.count(UNK)
        if len(words) >= FEWEST_WORDS and 2 * unknown > len(words):
            tell(f"line {number}: {unknown} of {len(words)} words are unknown to the model: is it of its language?")
        if len(tokens) <= most:
            yield tokens
            return
        told = f"line {number}: {len(tokens)} tokens, and the model reads {most}"
        long = self.long or ("beginning" if self.trained.options.get("truncate_source") else "pieces")
        if long == "empty":
            return tell(f"{told}: it is left empty")
        if long == "beginning":
            tell(f"{told}: its beginning is translated")
            words = words[: most - 1]
        count = -(-len(words) // (most - 1))
        if long == "pieces":
            tell(f"{told}: it is translated in {count} pieces")
        size = -(-len(words) // count)
        for start in range(0, len(words), size):
            yield self.trained.source.encode(words[start : start + size])

    def _batches(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield the numbers of parts of similar length, the longest first."""
        batch: list[int] = []
        for number in sorted(range(len(lengths)), key=lambda n: -lengths[n]):
            if batch and lengths[batch[0]] * (len(batch) + 1) > self.max_tokens:
                yield batch
                batch = []
            batch.append(number)
        if batch:
            yield batch

    def _joined(self, parts: list[list[Hypothesis]]) -> list[tuple[str, float]]:
        """Return the translations of a line from those of its parts."""
        decode = self.trained.target.decode
        found = [
            (
                " ".join(self.text.line(decode(each.tokens)) for each in of_parts),
                sum(each.score for each in of_parts) / len(of_parts),
            )
            for of_parts in zip(*parts, strict=False)
        ] or [("", 0.0)]
        return found + [("", -math.inf)] * (self.options.nbest - len(found))


def tell(message: str) -> None:
    """Write a line on stderr."""
    print(f"fairseq_localattn: {message}", file=sys.stderr, flush=True)
