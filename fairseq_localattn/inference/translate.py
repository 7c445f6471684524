"""Translate raw text by a trained model, without fairseq: a line in, a line out.

python -m fairseq_localattn translate --path CHECKPOINT < raw > translated
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, BinaryIO

import torch

from ..errors import UsageError
from .dictionary import PAD, UNK
from .int8 import to_int8
from .load import Trained, load
from .search import Hypothesis, Options, search
from .text import SUBWORDS, TOKENIZERS, Text, text_of

FEWEST_WORDS = 3  # of a line, beyond which one of mostly unknown words is told of


@dataclass(frozen=True)
class Job:
    """What translates lines.

    Args:
        trained: the model and its dictionaries.
        text: the steps between lines and words.
        options: of the search.
        max_tokens: of a batch, with its padding.
        pieces: translate a line that is too long in pieces; else it is left empty.
    """

    trained: Trained
    text: Text
    options: Options
    max_tokens: int = 4000
    pieces: bool = True

    def translate(self, lines: Sequence[str], first: int = 1, bar: Any = None) -> list[list[tuple[str, float]]]:
        """Return the ``nbest`` translations of each line with their scores; of an empty line one empty one.

        Lines are batched by length and returned in their order. What is wrong with one is told of on stderr, with its
        number, from ``first``.
        """
        parts: list[tuple[int, list[int]]] = []  # the line of each part, and its tokens
        for number, line in enumerate(lines):
            parts += [(number, part) for part in self._parts(line, first + number)]
        found: list[list[Hypothesis]] = [[] for _ in parts]
        for batch in self._batches([len(tokens) for _, tokens in parts]):
            width = max(len(parts[n][1]) for n in batch)
            tokens = torch.tensor([[PAD] * (width - len(parts[n][1])) + parts[n][1] for n in batch])
            for n, best in zip(batch, search(self.trained.model, tokens, self.options), strict=True):
                found[n] = best
            if bar is not None:
                bar.update(len(batch))
        of_lines: list[list[list[Hypothesis]]] = [[] for _ in lines]
        for (number, _), best in zip(parts, found, strict=True):
            of_lines[number].append(best)
        return [self._joined(best) for best in of_lines]

    def _parts(self, line: str, number: int) -> Iterator[list[int]]:
        """Yield the tokens of a line, in pieces if it is too long; none of an empty one."""
        words = self.text.words(line)
        if not words:
            return
        tokens, most = self.trained.source.encode(words), self.trained.model.sizes.max_source_positions
        unknown = tokens.count(UNK)
        if len(words) >= FEWEST_WORDS and 2 * unknown > len(words):
            tell(f"line {number}: {unknown} of {len(words)} words are unknown to the model: is it of its language?")
        if len(tokens) <= most:
            yield tokens
            return
        told = f"line {number}: {len(tokens)} tokens, and the model reads {most}"
        if not self.pieces:
            return tell(f"{told}: it is left empty")
        count = -(-len(words) // (most - 1))
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
        if not parts:
            return [("", 0.0)]
        decode = self.trained.target.decode
        return [
            (
                " ".join(self.text.line(decode(each.tokens)) for each in of_parts),
                sum(each.score for each in of_parts) / len(of_parts),
            )
            for of_parts in zip(*parts, strict=False)
        ] or [("", 0.0)]


def tell(message: str) -> None:
    """Write a line on stderr."""
    print(f"fairseq_localattn: {message}", file=sys.stderr, flush=True)


def lines_of(stream: BinaryIO) -> Iterator[str]:
    """Yield the lines of a stream, which end at newlines alone; bytes that are no UTF-8 are told of and replaced."""
    for number, line in enumerate(iter(stream.readline, b""), 1):
        text = line.decode("utf-8", "replace").strip()
        if "\ufffd" in text and line.decode("utf-8", "ignore").strip() != text:
            tell(f"line {number}: invalid UTF-8 was replaced; convert the text to UTF-8")
        yield text


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command; the options of the search have their names and defaults."""
    found = argparse.ArgumentParser(prog="python -m fairseq_localattn translate", description=__doc__.split("\n")[0])
    add = found.add_argument
    add("--path", required=True, metavar="PATH", help="a checkpoint of fairseq-train, or a folder of export")
    add("--data", metavar="DIR", help="folder of dict.XX.txt (default: the checkpoint's, then the training's)")
    add("--tokenizer", choices=TOKENIZERS, help="default: as the checkpoint says")
    add("--bpe", choices=SUBWORDS, help="default: as the checkpoint says")
    add("--bpe-codes", metavar="FILE", help="of --bpe subword_nmt")
    add("--sentencepiece-model", metavar="FILE", help="of --bpe sentencepiece")
    for each in fields(Options):
        flag = "--" + each.name.replace("_", "-")
        if isinstance(each.default, bool):
            add(flag, action="store_true")
        else:
            add(flag, type=type(each.default), default=each.default, help=f"default: {each.default}")
    add("--max-tokens", type=int, default=4000, help="of a batch, with its padding (default: 4000)")
    add("--buffer-size", type=int, default=10_000, help="lines that are read before they are translated")
    add("--long", choices=("pieces", "empty"), default="pieces", help="what becomes of lines that are too long")
    add("--scores", action="store_true", help="write the score and a tab before each translation")
    add("--int8", action="store_true", help="compute with weights of 8 bits; faster for wide models")
    add("--threads", type=int, help="of torch")
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Translate stdin to stdout."""
    args = parser().parse_args(argv)
    options = Options(**{each.name: getattr(args, each.name) for each in fields(Options)})
    for flag in ("max_tokens", "buffer_size", "threads"):
        if (value := getattr(args, flag)) is not None and value < 1:
            raise UsageError(f"--{flag.replace('_', '-')} {value}: give 1 or more")
    if args.threads:
        torch.set_num_threads(args.threads)
    trained = load(args.path, args.data)
    if trained.model.encoder.of_trees:
        raise UsageError(f"{args.path}: its phrases come from trees: use search(…, phrases=…), or fairseq-generate")
    if args.int8:
        to_int8(trained.model)
    given = {name: getattr(args, name) for name in ("tokenizer", "bpe", "bpe_codes", "sentencepiece_model")}
    text = text_of({**trained.options, **{name: value for name, value in given.items() if value is not None}})
    job = Job(trained, text, options, max_tokens=args.max_tokens, pieces=args.long == "pieces")
    try:
        for lines in write(job, lines_of(sys.stdin.buffer), args.buffer_size, scores=args.scores):
            sys.stdout.buffer.write("".join(lines).encode("utf-8"))
            sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        tell("interrupted; the lines that are written are whole")
        raise SystemExit(130) from None  # as a shell says of a command that is interrupted
    except BrokenPipeError:  # the reader, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write(job: Job, lines: Iterable[str], size: int, *, scores: bool) -> Iterator[list[str]]:
    """Yield the lines to write, for ``size`` lines at a time."""
    rest, first = iter(lines), 1
    while buffer := list(islice(rest, size)):
        with _bar(len(buffer)) as bar:
            found = job.translate(buffer, first, bar)
        yield [f"{score:.4f}\t{text}\n" if scores else f"{text}\n" for best in found for text, score in best]
        first += len(buffer)


def _bar(total: int) -> Any:
    """Return a progress bar on stderr; without tqdm there is none."""
    try:
        from ..progress import progress_bar
    except ModuleNotFoundError:
        return nullcontext()
    return progress_bar(total, "lines")


if __name__ == "__main__":
    main()
