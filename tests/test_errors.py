"""The exception for mistakes of users: in one line wherever it was raised."""

from __future__ import annotations

import pickle

import pytest
from torch._utils import ExceptionWrapper

from fairseq_localattn.errors import SentenceError, UsageError


def test_the_error_of_a_worker_is_its_line() -> None:
    """As torch's DataLoader raises it, with the traceback of the worker."""
    try:
        try:
            raise OSError("no such file: x")
        except OSError as error:
            raise UsageError("x.idx: sentence 3: damaged: copy it again") from error
    except UsageError:
        wrapped = ExceptionWrapper(where="in DataLoader worker process 0")
    assert "Traceback" in wrapped.exc_msg
    with pytest.raises(UsageError) as found:
        wrapped.reraise()
    assert str(found.value) == found.value.code == "x.idx: sentence 3: damaged: copy it again"


def test_a_sentence_is_numbered_from_one_and_can_be_sent() -> None:
    error = SentenceError("too long", 4)
    for found in (error, pickle.loads(pickle.dumps(error))):
        assert (str(found), found.what, found.index) == ("sentence 5: too long", "too long", 4)
    assert str(UsageError("Caught in the act: x")) == "Caught in the act: x"
