"""The exception for mistakes of users: in one line wherever it was raised."""

from __future__ import annotations

import pickle
import sys

import pytest
from torch._utils import ExceptionWrapper

from fairseq_localattn import errors
from fairseq_localattn.errors import SentenceError, UsageError
from support.cli import run


def test_the_error_of_a_worker_is_its_line() -> None:
    """As torch's DataLoader raises it, with the traceback of the worker."""
    try:
        raise UsageError("x.idx: sentence 3: damaged: copy it again") from OSError("no such file: x")
    except UsageError:
        wrapped = ExceptionWrapper(where="in DataLoader worker process 0")
    assert "Traceback" in wrapped.exc_msg
    with pytest.raises(UsageError, match="^x.idx: sentence 3: damaged: copy it again$"):
        wrapped.reraise()


def test_a_sentence_is_numbered_from_one_and_can_be_sent() -> None:
    error = SentenceError("too long", 4)
    for found in (error, pickle.loads(pickle.dumps(error))):
        assert (str(found), found.what, found.index) == ("sentence 5: too long", "too long", 4)
    assert str(UsageError("Caught in the act: x")) == "Caught in the act: x"


@pytest.mark.parametrize("said", ["x.idx: damaged", "fairseq_localattn: x.idx: damaged"])
def test_a_command_ends_with_a_line_that_the_runners_know(said: str) -> None:
    """The prefix stands there once, whoever has raised the error; the message itself stays as it is."""
    error = UsageError(said)
    assert str(error) == said and error.code == "fairseq_localattn: x.idx: damaged"


def test_the_interpreter_prints_that_line() -> None:
    program = f"exec(open({errors.__file__!r}).read()); raise UsageError('a.bin: cut')"
    done = run(sys.executable, "-c", program, check=False)
    assert (done.returncode, done.stderr) == (1, "fairseq_localattn: a.bin: cut\n")
