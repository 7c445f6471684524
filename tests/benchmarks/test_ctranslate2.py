"""CTranslate2 beside fairseq's generator."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from benchmarks import generation
from benchmarks.batches import Batches
from benchmarks.peers import ctranslate2 as converted
from benchmarks.settings import Settings
from benchmarks.systems import PLAIN, SYSTEMS, make_task
from fairseq_localattn.errors import UsageError

TINY = Settings(torch.device("cpu"), size="tiny", words=50)


@pytest.fixture(scope="module")
def task() -> Any:
    return make_task(50)


def test_where_it_is_not_installed(task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left out, and refused where it is asked for."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    find = partial(converted.searches_of, torch.nn.Identity(), task=task, length=30, beam=5)
    asked = replace(TINY, systems=("ctranslate2",))
    assert find(settings=TINY) == find(settings=replace(asked, systems=("mma",))) == {}
    with pytest.raises(UsageError, match=r"--systems ctranslate2: pip install 'fairseq_localattn\[benchmark\]'"):
        find(settings=asked)


@pytest.mark.slow
def test_it_translates_as_fairseq(task: Any) -> None:
    """The model is converted by its own command, and writes the words of fairseq's search."""
    pytest.importorskip("ctranslate2", reason="pip install 'fairseq_localattn[benchmark]'")
    settings = replace(TINY, systems=("ctranslate2",))
    plain = generation.BeamSearch(SYSTEMS[PLAIN], settings, task)
    found = converted.searches_of(plain.model, settings, task, length=30, beam=5)
    search = found["ctranslate2 fp32"]
    sample = Batches(task.source_dictionary, task.tag_dictionary).sentences(16, 0, 1)[0]
    plain.prepare(sample)
    theirs = task.inference_step(plain.generator, [plain.model], plain.sample)
    search.prepare(sample)
    search.run()
    search.finish()
    translated = search.translator.translate_batch(search.sentences, **search.options)
    same = [
        [task.source_dictionary[n] for n in best[0]["tokens"][:10]] == each.hypotheses[0][:10]
        for best, each in zip(theirs, translated, strict=True)
    ]
    assert sum(same) > 0.8 * len(same)  # fairseq's last word is </s>, so that a beam may prefer another beginning
