"""The warnings that are hidden: each is one that fairseq causes at every command, and no other is hidden."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from fairseq_localattn.compat import noise
from support.models import parse


def of_every_command() -> list[warnings.WarningMessage]:
    """Return the warnings of what each command of fairseq does, without the filters."""
    args = parse("transformer_mma_tiny")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        convert_namespace_to_omegaconf(args)
        with torch.cuda.amp.autocast(enabled=False):
            torch.cuda.amp.GradScaler(enabled=False)
        next(iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(1)), pin_memory=True)))
    return said


def matches(warning: warnings.WarningMessage) -> list[int]:
    """Return the numbers of the entries that hide a warning."""
    return [
        number
        for number, (category, message) in enumerate(noise.HIDDEN)
        if warning.category is category and re.match(message, str(warning.message))
    ]


def test_each_entry_hides_a_warning_of_fairseqs() -> None:
    said = [matches(warning) for warning in of_every_command() if warning.category is not DeprecationWarning]
    assert all(len(numbers) == 1 for numbers in said), "a warning that is not hidden, or hidden twice"
    wanted = set(range(len(noise.HIDDEN)))
    # Memory is pinned where there is a GPU; torch before 2.7 does not warn where there is none.
    if torch.cuda.is_available() or tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7):
        wanted -= {number for number in wanted if "pin_memory" in noise.HIDDEN[number][1]}
    assert {numbers[0] for numbers in said} == wanted


def test_others_still_show() -> None:
    """Warnings of the same categories, of the same modules, and with the same words further on are shown."""
    others = [
        (UserWarning, "something else"),
        (UserWarning, "note: 'pin_memory' argument is set as true but no accelerator is found"),
        (FutureWarning, "`torch.cuda.amp.custom_fwd(args...)` is deprecated"),
        (DeprecationWarning, "The version_base parameter is not specified"),
    ]
    with warnings.catch_warnings(record=True) as said:
        warnings.resetwarnings()
        noise.hide()
        for category, message in others:
            warnings.warn_explicit(message, category, "hydra/main.py", 1, module="hydra.main")
        for warning in of_every_command():
            warnings.warn_explicit(str(warning.message), warning.category, "other.py", 2)
    kept = [(warning.category, str(warning.message)) for warning in said if warning.filename != "other.py"]
    assert kept == others
    assert {warning.category for warning in said if warning.filename == "other.py"} <= {DeprecationWarning}


def test_the_users_filters_come_first() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        noise.hide()
        with pytest.raises(FutureWarning):
            torch.cuda.amp.GradScaler(enabled=False)
