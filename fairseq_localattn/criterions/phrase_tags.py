"""Criterion ``label_smoothed_cross_entropy_with_phrase_tags``: translation loss + λ · tag loss (Hao et al. 2019)."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import utils
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from fairseq.logging import metrics
from torch import Tensor

from ..errors import UsageError
from ..mechanisms.phrase_memory.partition import choose
from .label_smoothed import LabelSmoothedCrossEntropyCriterion

NAME = "label_smoothed_cross_entropy_with_phrase_tags"


@dataclass
class PhraseTagsConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """Options of the criterion: those of label-smoothed cross-entropy, and the weight of the tag loss."""

    tag_loss_weight: float = field(default=0.001, metadata={"help": "λ, the weight of the phrase tags' loss"})


@register_criterion(NAME, dataclass=PhraseTagsConfig)
class LabelSmoothedCrossEntropyWithPhraseTags(LabelSmoothedCrossEntropyCriterion):
    """Label-smoothed cross-entropy plus ``λ L_tag``, with ``L_tag = - Σ_i log p(t_i)`` over phrases (Eq. 10, 12).

    Both losses are sums over the batch, divided by the number of target tokens as in Eq. 12. Where several heads have
    the same granularity, each predicts the tags, and their losses are averaged. Logged as well: ``tag_loss`` (base 2,
    per phrase) and ``tag_accuracy`` (percent, over all heads).

    Raises UsageError for a negative weight and for a task without phrase tags.
    """

    def __init__(
        self,
        task: Any,
        sentence_avg: bool,
        label_smoothing: float,
        ignore_prefix_size: int = 0,
        report_accuracy: bool = False,
        tag_loss_weight: float = 0.001,
    ) -> None:
        super().__init__(
            task,
            sentence_avg,
            label_smoothing,
            ignore_prefix_size=ignore_prefix_size,
            report_accuracy=report_accuracy,
        )
        if tag_loss_weight < 0:
            raise UsageError(f"--tag-loss-weight {tag_loss_weight}: a weight is 0 or more")
        if not hasattr(task, "tag_dictionary"):
            raise UsageError("phrase tags come with --task translation_with_phrases: give it, or another criterion")
        self.tag_loss_weight = tag_loss_weight
        self.no_tag = task.tag_dictionary.pad()

    def compute_loss(
        self, model: Any, net_output: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return the loss with the tag loss added (unless by word), and the negative log-likelihood.

        The values to log are stored for :meth:`forward`.
        """
        loss, nll_loss = super().compute_loss(model, net_output, sample, reduce=reduce)
        logits, levels = net_output[1]["tag_logits"], model.encoder.head_levels()
        tag_loss, self._logged = tag_loss_of(logits, sample["phrase_tags"], levels, self.no_tag)
        return (loss + self.tag_loss_weight * tag_loss if reduce else loss), nll_loss  # phrases are not words

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> tuple[Tensor, int, dict[str, Any]]:
        """Return loss, sample size (target tokens) and values to log, as fairseq's criterions do."""
        loss, sample_size, logging_output = super().forward(model, sample, reduce)
        return loss, sample_size, {**logging_output, **self._logged}

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict[str, Any]]) -> None:
        """Log the losses and the accuracy of all workers together."""
        super().reduce_metrics(logging_outputs)
        sums = {key: utils.item(sum(log.get(key, 0) for log in logging_outputs)) for key in ("phrases", "tags")}
        if sums["tags"] > 0:
            tag_loss = sum(log.get("tag_loss", 0) for log in logging_outputs)
            right = sum(log.get("tags_right", 0) for log in logging_outputs)
            metrics.log_scalar("tag_loss", tag_loss / sums["phrases"] / math.log(2), sums["phrases"], round=3)
            metrics.log_scalar("tag_accuracy", right * 100.0 / sums["tags"], sums["tags"], round=2)


def tag_loss_of(
    logits: list[Tensor], tags: Tensor, levels: tuple[int, ...], no_tag: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the tag loss (Eq. 10) and the values to log.

    The loss is summed over phrases, and averaged over layers and over the heads of a level.

    Args:
        logits: for each layer B×H×P×tags, for H heads of phrases.
        tags: B×K×P for K levels; ``no_tag`` where a phrase has no tag or there is no phrase.
        levels: the level of each head, from 0.
        no_tag: the index that is left out.
    """
    targets = choose(tags, levels)  # B×H×P
    tagged = targets.ne(no_tag)
    total = tags.new_zeros((), dtype=torch.float32)
    right = tags.new_zeros(())
    for layer in logits:
        losses = F.cross_entropy(layer.float().movedim(-1, 1), targets, ignore_index=no_tag, reduction="none")
        by_head = losses.sum(dim=(0, 2)).unbind()
        mean = sum(loss / levels.count(level) for loss, level in zip(by_head, levels, strict=True))
        total = total + mean / len(logits)
        right = right + (layer.argmax(-1).eq(targets) & tagged).sum()
    phrases = choose(tags, sorted(set(levels))).ne(no_tag).sum() if logits else right
    logged = {"tag_loss": total.data, "tags_right": right, "tags": tagged.sum() * len(logits), "phrases": phrases}
    return total, logged
