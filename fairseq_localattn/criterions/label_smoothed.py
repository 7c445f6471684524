"""Criterion ``label_smoothed_cross_entropy`` as in fairseq, in less time and memory on a CPU.

fairseq's criterion holds three tensors of words × vocabulary at a time: logits, log-probabilities and a gradient. Here
one tensor serves all three: the log-probabilities overwrite the logits, and the gradient overwrites the
log-probabilities.
"""

from __future__ import annotations

from typing import Any

import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.criterions import label_smoothed_cross_entropy as theirs
from torch import Tensor

from ..kernels.once import once_differentiable
from .unseen import ReadsLogitsAlone, UnseenOutput

NAME = "label_smoothed_cross_entropy"


def smoothed_loss(logits: Tensor, target: Tensor, smoothing: float, padding: int) -> tuple[Tensor, Tensor]:
    """Return label-smoothed cross-entropy and negative log-likelihood, summed over rows as in fairseq.

    ``loss = (1 - ε - ε / (V - 1)) · -log p(target) + ε / (V - 1) · Σ_v -log p(v)`` for V words and ``ε = smoothing``.

    Args:
        logits: N×V, contiguous, not a leaf, and used by nothing else. They are overwritten by log-probabilities, whose
            softmax is the same, and by their gradient in a backward pass that does not retain the graph.
        target: N, int64.
        smoothing: ε, from 0 to 1.
        padding: the target of rows that are left out.

    The loss is differentiable once, also by several backward passes; the likelihood is not.
    """
    return _SmoothedLoss.apply(logits, target[:, None], smoothing, padding)


class _SmoothedLoss(torch.autograd.Function):
    """The computation of :func:`smoothed_loss`; ``target`` is N×1."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float, padding: int) -> tuple[Tensor, Tensor]:
        log_probs = logits.detach()
        torch.log_softmax(log_probs, dim=-1, out=log_probs)
        padded = target == padding
        ctx.save_for_backward(log_probs, target, padded)
        ctx.word_weight = smoothing / (logits.size(1) - 1)
        ctx.target_weight = 1 - smoothing - ctx.word_weight
        likelihood = -log_probs.gather(1, target).masked_fill_(padded, 0).sum()
        over_words = -log_probs.sum(1, keepdim=True).masked_fill_(padded, 0).sum()
        ctx.mark_non_differentiable(likelihood)
        return ctx.target_weight * likelihood + ctx.word_weight * over_words, likelihood

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient with respect to the logits, N×V; 0 in rows of padding.

        ``∂loss/∂logit_v = p(v) · (a + V · b) - b - a · [v = target]`` with the weights a of the target and b of a word.
        """
        log_probs, target, padded = ctx.saved_tensors
        scale = float(gradient)
        retained = torch._C._autograd._get_current_graph_task_keep_graph()
        result = log_probs.exp() if retained else log_probs.exp_()
        constant = result.new_tensor(-scale * ctx.word_weight)
        torch.add(constant, result, alpha=scale * (ctx.target_weight + result.size(1) * ctx.word_weight), out=result)
        result.scatter_add_(1, target, result.new_tensor(-scale * ctx.target_weight).expand_as(target))
        return result.index_fill_(0, padded[:, 0].nonzero()[:, 0], 0), None, None, None


class LabelSmoothedCrossEntropyCriterion(ReadsLogitsAlone, theirs.LabelSmoothedCrossEntropyCriterion):
    """fairseq's criterion, computed by :func:`smoothed_loss` for models with ``loss_in_place`` on a CPU.

    Logits in fp32 are overwritten; logits in bf16 are copied to fp32 first.

    Validation, losses by word (``reduce=False``), ``--ignore-prefix-size``, and outputs that a hook or a caller of
    ``compute_loss`` sees use fairseq's implementation. The class has the name of fairseq's class because checkpoints
    contain it and fairseq compares it when it resumes a training.
    """

    def compute_loss(
        self, model: Any, net_output: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return the loss and the negative log-likelihood, summed over the batch, or by word unless ``reduce``.

        Called by :meth:`forward`, it may overwrite the logits ``net_output[0]``, B×T×V.
        """
        in_place = reduce and isinstance(model, UnseenOutput) and getattr(model, "loss_in_place", False)
        if not (in_place and self._supports(net_output[0])):
            return super().compute_loss(model, net_output, sample, reduce=reduce)
        logits, target = net_output[0], model.get_targets(sample, net_output)
        return smoothed_loss(logits.view(-1, logits.size(-1)).float(), target.reshape(-1), self.eps, self.padding_idx)

    def _supports(self, logits: Tensor) -> bool:
        """Return whether :func:`smoothed_loss` applies to these logits and options."""
        cpu = logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.bfloat16)
        return cpu and logits.requires_grad and logits.is_contiguous() and self.ignore_prefix_size == 0


# fairseq's register_criterion refuses a name that is taken, so the entry is replaced directly.
CRITERION_REGISTRY[NAME] = LabelSmoothedCrossEntropyCriterion
