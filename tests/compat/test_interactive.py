"""Lines of fairseq-interactive: read as they come, decoded one by one, and counted."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fairseq.data import Dictionary
from fairseq.data.data_utils import collate_tokens
from fairseq.dataclass.configs import FairseqConfig
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf

from fairseq_localattn.compat.interactive import Lines
from fairseq_localattn.errors import SentenceError, UsageError

WORDS = Dictionary()
WORDS.add_symbol("a")
TASK = SimpleNamespace(source_dictionary=WORDS)


def batches(lines: list[str], *_: object) -> Iterator[Any]:
    """Yield a batch of the lines; a line "long" is an error of that sentence."""
    if "long" in lines:
        raise SentenceError("too long", lines.index("long"))
    tokens = [WORDS.encode_line(line, add_if_not_exist=False) for line in lines]
    yield SimpleNamespace(src_tokens=collate_tokens(tokens, WORDS.pad(), left_pad=True))


def standard_input(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="ascii"))


def test_lines_before_a_damaged_one_are_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a buffer that is not full. The encoding of the locale does not matter."""
    standard_input(b"a\n\xc3\xa4 \r\n\nb \xff\n", monkeypatch)
    lines = Lines("-", batches)
    read = lines.buffered_read("-", 2)
    assert [next(read), next(read)] == [["a", "ä"], [""]]
    with pytest.raises(UsageError, match="^standard input:4: invalid UTF-8 at byte 3 of the line"):
        next(read)
    assert not sys.stdin.closed


@pytest.mark.parametrize("size", [1, 3])
def test_a_line_is_counted_in_every_size_of_the_buffer(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    standard_input(b"a\nb\nc\nd\nlong\nf\n", monkeypatch)
    lines = Lines("-", batches)
    with pytest.raises(UsageError, match="^standard input:5: too long$"):
        for buffer in lines.buffered_read("-", size):
            list(lines.make_batches(buffer, None, TASK))


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["a b c", "d", "e", "f"], "4 of 5 words"),  # each line a batch; said once, when five words are known
        (["a a b", "a", "a"], None),
        (["b c d"], None),  # too few to tell
    ],
)
def test_mostly_unknown_words_are_told_once(
    lines: list[str], told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    counted = Lines("-", batches)
    for line in lines:
        list(counted.make_batches([line], None, TASK))
    messages = [record.getMessage() for record in caplog.records]
    if told is None:
        assert messages == []
    else:
        (message,) = messages
        assert message.startswith(f"{told} are unknown to the dictionary: give ") and "\n" not in message


def test_only_interactive_use_is_changed_and_only_while_it_runs() -> None:
    names: dict[str, Any] = {"buffered_read": 1, "make_batches": batches, "seen": []}
    exec("def main(cfg): seen.append((buffered_read, make_batches))", names)
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.common_eval.path = "checkpoint.pt"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed_utils, "infer_init_method", lambda _: None)
        distributed_utils.call_main(cfg, names["main"])
    assert [function.__func__ for function in names["seen"][0]] == [Lines.buffered_read, Lines.make_batches]
    assert names["buffered_read"] == 1 and names["make_batches"] is batches
