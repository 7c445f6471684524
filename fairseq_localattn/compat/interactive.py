"""fairseq-interactive: errors name the line, and one warning says that most words are unknown."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from fairseq.distributed import utils as distributed_utils
from torch import Tensor

from ..errors import SentenceError, UsageError
from .around import around

logger = logging.getLogger(__name__)
FEWEST_WORDS = 5  # that are counted before a warning


class Lines:
    """The lines of fairseq-interactive's input, counted.

    Args:
        name: ``--input``, a file, or - for the standard input.
        make_batches: fairseq's function of this name.
    """

    def __init__(self, name: str, make_batches: Callable[..., Iterator[Any]]) -> None:
        self.name = "standard input" if name == "-" else name
        self._make_batches = make_batches
        self._read = 0  # lines before those that are being translated
        self._words = self._unknown = 0
        self._warned = False

    def buffered_read(self, path: str, buffer_size: int) -> Iterator[list[str]]:
        """Yield the lines, stripped, ``buffer_size`` at a time. Raises UsageError for a line that is not UTF-8."""
        buffer: list[str] = []
        try:
            with nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb") as stream:
                for line in iter(stream.readline, b""):  # of a terminal, each as it comes
                    try:
                        buffer.append(self._decoded(line, self._read + len(buffer) + 1))
                    except UsageError:
                        if buffer:  # what stands before is translated first
                            yield buffer
                        raise
                    if len(buffer) >= buffer_size:
                        yield buffer
                        self._read += len(buffer)
                        buffer = []
        except OSError as error:
            raise UsageError(f"--input {path}: cannot be read: {error.strerror}") from error
        if buffer:
            yield buffer

    def _decoded(self, line: bytes, number: int) -> str:
        try:
            return line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{self.name}:{number}: invalid UTF-8 at byte {error.start + 1} of the line; convert the text to UTF-8"
            ) from None

    def make_batches(self, lines: list[str], cfg: Any, task: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield the batches of some lines. Raises UsageError, with the line's number, for one that cannot be used.

        Where most words so far are unknown to the dictionary, one line says so, once.
        """
        try:
            for batch in self._make_batches(lines, cfg, task, *args, **kwargs):
                self._count(batch.src_tokens, task.source_dictionary)
                yield batch
        except SentenceError as error:
            raise UsageError(f"{self.name}:{self._read + error.index + 1}: {error.what}") from error

    def _count(self, tokens: Tensor, dictionary: Any) -> None:
        """Count the words of a batch, and warn once where most of all are unknown."""
        self._words += int(((tokens != dictionary.pad()) & (tokens != dictionary.eos())).sum())
        self._unknown += int((tokens == dictionary.unk()).sum())
        if not self._warned and self._words >= FEWEST_WORDS and 2 * self._unknown > self._words:
            self._warned = True
            logger.warning(
                f"{self._unknown} of {self._words} words are unknown to the dictionary: give the text as the training "
                "had it, in tokens or subwords, or --tokenizer and --bpe with its codes"
            )


def apply() -> None:
    """Install the counting of lines; to be called once.

    ``call_main`` starts each command of fairseq. Only fairseq-interactive has a function ``buffered_read``.
    """

    @around(distributed_utils, "call_main")
    def call_main(call: Callable[..., Any], cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
        module = getattr(main, "__globals__", {})
        names = ("buffered_read", "make_batches")
        if not all(name in module for name in names):
            return call(cfg, main, **kwargs)
        before = {name: module[name] for name in names}
        lines = Lines(cfg.interactive.input, module["make_batches"])
        module.update({name: getattr(lines, name) for name in names})
        try:
            return call(cfg, main, **kwargs)
        finally:
            module.update(before)
