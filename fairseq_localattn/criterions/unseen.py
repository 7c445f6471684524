"""Criterions that read only a model's logits, and the work to skip where nothing else sees its output."""

from __future__ import annotations

from typing import Any

from fairseq.criterions import CRITERION_REGISTRY
from torch import nn

from ..core.hooks import has_hooks


class UnseenOutput:
    """A model whose output only the criterion sees; its attention weights are not read.

    A model of this package then leaves out the weights of the last layer's cross-attention, which fairseq computes in
    training. The logits may be overwritten.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, **net_input: Any) -> Any:
        """Compute the model's output."""
        return self._model(**net_input, **getattr(self._model, "without_weights", {}))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def is_watched(model: nn.Module) -> bool:
    """Return whether a hook sees the output of the model, of its decoder or of a module in it."""
    encoder = getattr(model, "encoder", None)
    others = set() if encoder is None else set(encoder.modules())
    return any(has_hooks(module) for module in model.modules() if module not in others)


class ReadsLogitsAlone:
    """A mixin for fairseq's criterions that read no attention weights. Subclasses outside this package may."""

    def forward(self, model: Any, sample: dict[str, Any], reduce: bool = True) -> Any:
        """Return loss, sample size and values to log, as fairseq's criterions do."""
        if type(self).__module__.startswith(f"{__package__}.") and not is_watched(model):
            model = UnseenOutput(model)
        return super().forward(model, sample, reduce)  # type: ignore[misc]


# fairseq's register_criterion refuses a name that is taken, so the entries are replaced directly. The classes keep
# their names, which checkpoints contain and fairseq compares when it resumes a training.
for _name in ("cross_entropy", "adaptive_loss"):
    _theirs = CRITERION_REGISTRY[_name]
    CRITERION_REGISTRY[_name] = type(_theirs.__name__, (ReadsLogitsAlone, _theirs), {"__module__": __name__})
