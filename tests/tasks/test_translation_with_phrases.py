"""The task translation_with_phrases: its settings, its criterion, and the phrases that fairseq-interactive drops."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from fairseq.tasks.translation import TranslationTask

from fairseq_localattn.criterions.phrase_tags import LabelSmoothedCrossEntropyWithPhraseTags
from fairseq_localattn.errors import UsageError
from fairseq_localattn.tasks.translation_with_phrases import InteractivePhraseDataset, phrase_settings
from support.models import sentences, tags
from support.phrase_batches import TaskWithoutData, levels, pairs


@pytest.mark.parametrize("supervised", [True, False])
def test_model_and_criterion_must_agree(supervised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    task = TaskWithoutData()
    task._supervised = supervised
    criterion = object() if supervised else LabelSmoothedCrossEntropyWithPhraseTags(task, False, 0.1)
    monkeypatch.setattr("fairseq.criterions.build_criterion", lambda *_, **__: criterion)
    message = "--mgsa-tags needs a criterion" if supervised else "the model predicts no phrase tags: give --mgsa-tags"
    with pytest.raises(UsageError, match=message):
        task.build_criterion(Namespace(_name="cross_entropy"))


def test_equal_sentences_with_different_trees_keep_their_phrases() -> None:
    """Phrases that fairseq-interactive drops are restored by the batch's tokens, in the order of the batches."""
    waiting: dict = {}
    source = [*sentences([4]), *sentences([4])]
    given = [levels([3], [1, 2]), levels([2, 1], [1, 1, 1])]
    data = InteractivePhraseDataset(pairs(source, None), given, tags(), waiting)
    both = [data.collater([data[n]]) for n in (0, 1)]
    task = TaskWithoutData()
    task._batch_phrases = waiting
    generator = Mock()
    for made in both:
        bare = {"net_input": {"src_tokens": made["net_input"]["src_tokens"], "src_lengths": torch.tensor([4])}}
        task.inference_step(generator, [], bare)
    seen = [call.args[1]["net_input"]["src_phrases"] for call in generator.generate.call_args_list]
    assert [phrases.tolist() for phrases in seen] == [made["net_input"]["src_phrases"].tolist() for made in both]
    assert seen[0].tolist() != seen[1].tolist()
    assert not waiting, "phrases that were used are deleted"
    with pytest.raises(UsageError, match="these sentences came without their phrases"):
        task.inference_step(generator, [], bare)


def test_raw_text_has_no_phrases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TranslationTask, "load_dataset", lambda *_, **__: None)
    task = TaskWithoutData()
    task.cfg = Namespace(data=str(tmp_path), source_lang="en", target_lang="de", train_subset="train")
    (tmp_path / "train.en-de.en").write_text("a dog\n")
    with pytest.raises(UsageError, match=r"phrases need binarised text \(train\.\*\.idx\): leave --dataset-impl out"):
        task.load_dataset("train")


def test_damaged_settings_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dict.en.phrases.txt").write_text("NP 3\n")
    for text in ("{", '{"lang": "en"}', '{"levels": "many", "subwords": "none"}'):
        (tmp_path / "en.phrases.json").write_text(text)
        with pytest.raises(UsageError, match=r"en\.phrases\.json: damaged"):
            phrase_settings(tmp_path, "en")
