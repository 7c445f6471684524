"""The criterion with the loss of phrases' tags."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from fairseq_localattn.criterions.phrase_tags import LabelSmoothedCrossEntropyWithPhraseTags, tag_loss_of
from fairseq_localattn.errors import UsageError
from support.models import batch, build, dictionary, tags, with_phrases
from support.phrase_batches import TaskWithoutData

TINY = "transformer_mgsa_tiny"


def test_the_criterion_adds_the_weighted_tag_loss() -> None:
    """λ L_tag is added to fairseq's loss; logged values can be summed over workers; sample_size is unchanged."""
    model = build(TINY, ["--mgsa-tags"]).eval()
    sample = batch([9, 4], [7, 5])
    sample["net_input"] = with_phrases(model, sample["net_input"])
    lengths = sample["net_input"]["src_phrases"]
    sample["phrase_tags"] = torch.where(lengths > 1, 5, torch.where(lengths == 1, 7, tags().pad()))
    plain = LabelSmoothedCrossEntropyWithPhraseTags(TaskWithoutData(), False, 0.1, tag_loss_weight=0.0)
    weighted = LabelSmoothedCrossEntropyWithPhraseTags(TaskWithoutData(), False, 0.1, tag_loss_weight=0.25)
    (without, size, _), (with_tags, same_size, logged) = plain(model, sample), weighted(model, sample)
    logits = model(**sample["net_input"])[1]["tag_logits"]
    wanted, _ = tag_loss_of(logits, sample["phrase_tags"], (0, 1, 2), tags().pad())
    torch.testing.assert_close(with_tags - without, 0.25 * wanted)
    assert size == same_size == sample["ntokens"]
    assert int(logged["phrases"]) == int((lengths > 0).sum()) and logged["tag_loss"] > 0
    assert weighted.logging_outputs_can_be_summed()


def test_criterion_refuses_a_negative_weight_and_a_task_without_tags() -> None:
    with pytest.raises(UsageError, match="--tag-loss-weight -1"):
        LabelSmoothedCrossEntropyWithPhraseTags(TaskWithoutData(), False, 0.1, tag_loss_weight=-1)
    task = SimpleNamespace(target_dictionary=dictionary())
    with pytest.raises(UsageError, match="phrase tags come with --task translation_with_phrases"):
        LabelSmoothedCrossEntropyWithPhraseTags(task, False, 0.1)
