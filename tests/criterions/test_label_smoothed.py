"""Label-smoothed cross-entropy computed in place equals fairseq's, and is used for models of this package only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.criterions import label_smoothed_cross_entropy as theirs
from fairseq.distributed import ModuleProxyWrapper
from torch import Tensor

from fairseq_localattn.criterions import label_smoothed
from fairseq_localattn.criterions.label_smoothed import LabelSmoothedCrossEntropyCriterion, smoothed_loss
from fairseq_localattn.criterions.phrase_tags import LabelSmoothedCrossEntropyWithPhraseTags
from fairseq_localattn.criterions.unseen import UnseenOutput
from fairseq_localattn.variants.mma import MMATransformerModel
from support.models import batch_for, build, case, dictionary, tags, with_phrases

PADDING = 1
MMA = "transformer_mma_tiny"


def by_definition(logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the loss and the likelihood, computed word by word from their definition."""
    loss, likelihood = logits.new_zeros(()), logits.new_zeros(())
    for row, right in zip(logits, target.tolist(), strict=True):
        if right == PADDING:
            continue
        costs = [row.exp().sum().log() - x for x in row]
        rest = smoothing / (len(costs) - 1)
        likelihood = likelihood + costs[right]
        loss = loss + sum((1 - smoothing if v == right else rest) * cost for v, cost in enumerate(costs))
    return loss, likelihood


def random_logits() -> tuple[Tensor, Tensor]:
    """Return logits N×V and targets N, one of which is padding."""
    generator = torch.Generator().manual_seed(3)
    logits = 3 * torch.randn(6, 7, generator=generator, dtype=torch.double)
    target = torch.randint(7, (6,), generator=generator)
    target[2] = PADDING
    return logits.requires_grad_(), target


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_by_its_definition(smoothing: float) -> None:
    logits, target = random_logits()
    wanted = by_definition(logits, target, smoothing)
    (wanted_gradient,) = torch.autograd.grad(3 * wanted[0], logits)
    place = logits.clone()
    got = smoothed_loss(place, target, smoothing, PADDING)
    torch.testing.assert_close(got, wanted)
    torch.testing.assert_close(place, logits.log_softmax(-1))
    (gradient,) = torch.autograd.grad(3 * got[0], logits)
    torch.testing.assert_close(gradient, wanted_gradient)
    assert (gradient[2] == 0).all() and not got[1].requires_grad


def test_extreme_logits_and_batches_without_words() -> None:
    logits = torch.tensor([[1e4, 0, -1e4], [-1e30, 0, 1e30]], requires_grad=True)
    loss, likelihood = smoothed_loss(logits * 1, torch.tensor([2, 2]), 0.0, PADDING)
    loss.backward()
    assert logits.grad is not None
    assert loss == likelihood == 2e4 and torch.equal(logits.grad, torch.tensor([[1.0, 0, -1], [0, 0, 0]]))
    for rows in (2, 0):
        logits = torch.randn(rows, 3, requires_grad=True)
        loss, _ = smoothed_loss(logits * 1, torch.full((rows,), PADDING), 0.1, PADDING)
        loss.backward()
        assert loss == 0 and logits.grad is not None and not logits.grad.any()


def test_other_uses_of_the_logits_raise_an_error() -> None:
    logits, target = random_logits()
    place = logits.clone()
    other = place.square().sum()  # needs the logits for its gradient
    loss, _ = smoothed_loss(place, target, 0.1, PADDING)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (loss + other).backward()


def test_two_losses_of_one_output_leave_it_as_it_is(calls: list[Tensor]) -> None:
    """Who calls the model has its logits: losses of them are fairseq's, before and after other uses of them."""
    model = build(MMA).train()
    sample = sample_of(model)
    torch.manual_seed(5)
    output = model(**sample["net_input"])
    logits, before = output[0], output[0].detach().clone()
    first = make_criterion().compute_loss(model, output, sample)[0]
    second = make_criterion(label_smoothing=0.3).compute_loss(model, output, sample)[0]
    (first + second + logits.logsumexp(-1).sum()).backward()
    assert torch.equal(logits, before) and not calls


def test_a_subclass_may_read_the_logits_after_the_loss(calls: list[Tensor]) -> None:
    class Mine(LabelSmoothedCrossEntropyCriterion):
        pass

    model = build(MMA).train()
    run(model, sample_of(model), Mine)
    assert not calls


def make_criterion(kind: type = LabelSmoothedCrossEntropyCriterion, **more: Any) -> Any:
    task = SimpleNamespace(target_dictionary=dictionary(), tag_dictionary=tags())
    return kind(task, sentence_avg=False, **{"label_smoothing": 0.1, **more})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The logits for which the loss was computed in place."""
    found: list[Tensor] = []

    def record(logits: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        found.append(logits)
        return smoothed_loss(logits, *rest)

    monkeypatch.setattr(label_smoothed, "smoothed_loss", record)
    return found


def run(model: Any, sample: dict[str, Any], kind: type, **more: Any) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Return the logged values, and the loss with all gradients, under the same dropout each time."""
    torch.manual_seed(5)
    model.zero_grad()
    loss, _, logged = make_criterion(kind, **more)(model, sample)
    if loss.requires_grad:
        loss.sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return {name: torch.as_tensor(value) for name, value in logged.items()}, [loss.detach(), *gradients]


def assert_equal(one: tuple[dict[str, Tensor], list[Tensor]], other: tuple[dict[str, Tensor], list[Tensor]]) -> None:
    torch.testing.assert_close(one[0], other[0])
    torch.testing.assert_close(one[1], other[1], rtol=1e-4, atol=1e-5)


def compare(model: Any, sample: dict[str, Any], **more: Any) -> None:
    """Assert that this criterion and fairseq's log the same values and give the same gradients."""
    kinds = LabelSmoothedCrossEntropyCriterion, theirs.LabelSmoothedCrossEntropyCriterion
    assert_equal(*(run(model, sample, kind, **more) for kind in kinds))


def sample_of(model: Any) -> dict[str, Any]:
    sample = batch_for(model, [6, 4, 5], [5, 7, 3])
    return {**sample, "net_input": with_phrases(model, sample["net_input"])}


class Wrapped(torch.nn.Module):
    """A wrapper without the model's attributes, as DistributedDataParallel is."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, **kwargs: Any) -> Any:
        return self.module(**kwargs)


class Sharpened(MMATransformerModel):
    def get_normalized_probs(self, net_output: Any, log_probs: bool, sample: Any = None) -> Tensor:
        return super().get_normalized_probs((net_output[0] / 2, None), log_probs, sample)


def sharpened() -> Any:
    model = build(MMA)
    model.__class__ = Sharpened
    return model


def watched(place: str) -> Any:
    model = build(MMA)
    model.get_submodule(place).register_forward_hook(lambda *_: None)
    return model


# The loss reads a model's logits alone: models whose layers, phrases or positions are other ones stand for all.
MODELS = ["transformer_csan_tiny", "man-checkpointed", "mgsa-tags", "mma-no-positions", "lm-hybrid"]
IN_PLACE: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    **{name: (partial(case, name), {}) for name in (*MODELS, "transformer_lm_diffwin_tiny")},
    "of several processes": (lambda: ModuleProxyWrapper(Wrapped(build(MMA))), {}),
    "accuracy": (lambda: build(MMA), {"report_accuracy": True}),
    "not smoothed": (lambda: build(MMA), {"label_smoothing": 0.0}),
}
BY_FAIRSEQ: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "prefix": (lambda: build(MMA), {"ignore_prefix_size": 2}),
    "flag": (lambda: build(MMA, ["--localattn-loss", "fairseq"]), {}),
    "fairseq's model": (lambda: build("transformer"), {}),
    "other probabilities": (sharpened, {}),
    "hook": (lambda: watched(""), {}),
    "hook within": (lambda: watched("decoder.output_projection"), {}),
}


@pytest.mark.parametrize("name", [*IN_PLACE, *BY_FAIRSEQ])
def test_losses_and_gradients_are_fairseqs(name: str, calls: list[Tensor]) -> None:
    make, more = {**IN_PLACE, **BY_FAIRSEQ}[name]
    model = make().train()
    compare(model, sample_of(model), **more)
    assert len(calls) == (name in IN_PLACE)


def test_validation_and_losses_by_word_are_left_to_fairseq(calls: list[Tensor]) -> None:
    model = build(MMA).train()
    sample = sample_of(model)
    with torch.no_grad():
        compare(model, sample)
    loss, _ = make_criterion().compute_loss(UnseenOutput(model), model(**sample["net_input"]), sample, reduce=False)
    assert loss.shape == (3 * 7, 1) and not calls


def test_an_adaptive_softmax_has_no_logits_to_overwrite() -> None:
    assert not build(MMA, ["--adaptive-softmax-cutoff", "10,20"], share=False).loss_in_place


def test_logits_of_bf16_are_taken_in_fp32(calls: list[Tensor]) -> None:
    model, found = build(MMA).train(), []
    sample = sample_of(model)
    for kind in (LabelSmoothedCrossEntropyCriterion, theirs.LabelSmoothedCrossEntropyCriterion):
        torch.manual_seed(5)
        logits = torch.randn(3, 7, len(dictionary())).bfloat16().requires_grad_()
        loss, likelihood = make_criterion(kind).compute_loss(UnseenOutput(model), (logits * 1, None), sample)
        found.append([loss, likelihood, *torch.autograd.grad(loss, logits)])
    assert len(calls) == 1 and calls[0].dtype == torch.float32
    torch.testing.assert_close(*found)


def test_criterion_with_phrase_tags(calls: list[Tensor]) -> None:
    """Values and gradients in place are those of fairseq's loss."""
    found = []
    for flag in ("auto", "fairseq"):
        model = build("transformer_mgsa_tiny", ["--mgsa-tags", "--localattn-loss", flag]).train()
        sample = sample_of(model)
        phrases = sample["net_input"]["src_phrases"]
        generator = torch.Generator().manual_seed(2)
        marks = torch.randint(tags().nspecial, len(tags()), phrases.shape, generator=generator)
        sample["phrase_tags"] = marks.masked_fill(phrases == 0, tags().pad())
        found.append(run(model, sample, LabelSmoothedCrossEntropyWithPhraseTags, tag_loss_weight=0.5))
    assert len(calls) == 1
    assert_equal(*found)
