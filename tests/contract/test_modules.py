"""Models are made of modules: what changes, replaces or observes one has the effect that it has in fairseq's model."""

from __future__ import annotations

import copy
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import pytest
import torch
from fairseq.modules.quantization.scalar.modules import IntLinear
from fairseq.quantization_utils import quantize_model_scalar
from torch import Tensor, nn

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.criterions.label_smoothed import LabelSmoothedCrossEntropyCriterion
from support.models import CASES, batch, build, case, decode_by_word, tags, with_phrases
from support.models import dictionary as words

# Together they have every word of the grammar, at every site where it is defined.
NAMES = [name for name in CASES if name.startswith("hybrid-")] + ["localness-keys", "man-checkpointed", "mgsa-tags"]
SAMPLE = batch([6, 5, 4, 4], [7, 6, 7, 5])


def outputs(model: nn.Module) -> list[Tensor]:
    """Return the logits of a full pass and of a pass word by word, in evaluation."""
    model.eval()
    with torch.no_grad():
        full = model(**with_phrases(model, SAMPLE["net_input"]))[0]
    return [full, decode_by_word(model, SAMPLE)]


def trained(model: nn.Module) -> list[Tensor]:
    """Return the label-smoothed loss of a training step, under a fixed dropout, and all gradients."""
    torch.manual_seed(3)
    model.train().zero_grad()
    sample = {**SAMPLE, "net_input": with_phrases(model, SAMPLE["net_input"])}
    loss = criterion()(model, sample)[0]
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]


def criterion() -> Any:
    task = type("Task", (), {"target_dictionary": words(), "tag_dictionary": tags()})()
    return LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=0.1)


def assert_equal(found: list[Tensor], wanted: list[Tensor]) -> None:
    assert len(found) == len(wanted)
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=2e-5)


# ------------------------------------------------------------------------------------------ changed parameters


def _average(model: nn.Module) -> None:
    for parameter in model.parameters():  # as the moving average of a teacher
        parameter.data.mul_(0.9).add_(torch.randn_like(parameter), alpha=0.1)


def _assign(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data = parameter.data * 1.2


def _swap(model: nn.Module) -> None:
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                torch.utils.swap_tensors(parameter, nn.Parameter(parameter.detach() * 1.1))
                assert module._parameters[name] is parameter


def _load(model: nn.Module) -> None:
    model.load_state_dict({k: v * 0.9 for k, v in model.state_dict().items()}, strict=True)


def _move(model: nn.Module) -> None:
    state, buffers = {k: v * 1.1 for k, v in model.state_dict().items()}, dict(model.named_buffers())
    model.to("meta").to_empty(device="cpu").load_state_dict(state)
    for name, buffer in model.named_buffers():  # fairseq's sinusoidal positions are not in the state
        buffer.copy_(buffers[name])


@pytest.mark.parametrize("name", NAMES)
def test_every_change_of_parameters_has_effect_at_once(name: str) -> None:
    """A model that has encoded and decoded equals a new one with the same parameters, without train() or eval()."""
    model, new = case(name), case(name)
    before = outputs(model)
    torch.manual_seed(2)
    for change in (_average, _assign, _swap, _load, _move):
        change(model)
        fresh = copy.deepcopy(new)
        fresh.load_state_dict(model.state_dict())
        found = outputs(model)
        assert not torch.allclose(found[0], before[0]), change.__name__
        assert_equal(found, outputs(fresh))
        before = found
    assert_equal(outputs(model.double().float()), before)
    found = outputs(model.double())
    assert found[0].dtype == found[1].dtype == torch.double
    assert_equal([x.float() for x in found], before)


# ------------------------------------------------------------------------------------------ hooks and adapters


def linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    """Return the linear layers of all attentions by name."""
    inside = {id(module) for each in attentions(model) for module in each.modules()}
    found = {name: each for name, each in model.named_modules() if type(each) is nn.Linear and id(each) in inside}
    assert len(found) >= 4 * 6
    return found


def attentions(model: nn.Module) -> list[LocalAttention]:
    return [module for module in model.modules() if isinstance(module, LocalAttention) and not module.part]


class Adapted(nn.Module):
    """A linear layer within an adapter, as LoRA has it: without a weight of its own."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Tensor) -> Tensor:
        return 2 * self.base(x)


def _wrap(model: nn.Module, name: str, layer: nn.Linear) -> None:
    model.set_submodule(name, Adapted(layer))


def _hook(model: nn.Module, name: str, layer: nn.Linear) -> None:
    layer.register_forward_hook(lambda module, inputs, output: 2 * output)


def _pre_hook(model: nn.Module, name: str, layer: nn.Linear) -> None:
    def double(module: Any, inputs: Any) -> Any:  # doubles the bias as well
        return (inputs[0] * 2,)

    layer.register_forward_pre_hook(double)
    if layer.bias is not None:
        layer.bias.data.mul_(2)


def _parametrize(model: nn.Module, name: str, layer: nn.Linear) -> None:
    for each in ("weight", "bias"):
        if getattr(layer, each) is not None:
            nn.utils.parametrize.register_parametrization(layer, each, Doubled())


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


@pytest.mark.parametrize("adapt", [_wrap, _hook, _pre_hook, _parametrize])
@pytest.mark.parametrize("name", NAMES)
def test_adapters_of_projections_have_effect_everywhere(name: str, adapt: Callable[..., None]) -> None:
    """An adapter that doubles the output of every linear layer equals doubled parameters, in training and decoding."""
    model, doubled = case(name), case(name)
    for each, layer in linear_layers(model).items():
        adapt(model, each, layer)
    for layer in linear_layers(doubled).values():
        for parameter in layer.parameters():
            parameter.data.mul_(2)
    assert_equal(outputs(model), outputs(doubled))
    loss, other = trained(model)[0], trained(doubled)[0]
    torch.testing.assert_close(loss, other)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_hook_keeps_stays_as_it_was_returned(name: str) -> None:
    """Hooks on every module see every output, which nothing overwrites; results and gradients are those without."""
    flags = [*CASES[name][1], "--activation-dropout", "0.1"]
    model, plain = build(CASES[name][0], flags), build(CASES[name][0], flags)
    kept: list[tuple[str, Tensor, Tensor]] = []
    seen = set()

    def keep(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any, output: Any) -> None:
            seen.add(path)
            tensors = output if isinstance(output, tuple) else (output,)
            kept.extend((path, x, x.detach().clone()) for x in tensors if isinstance(x, Tensor))

        return hook

    for path, module in model.named_modules():
        module.register_forward_hook(keep(path))
    assert_equal(trained(model), trained(plain))
    assert_equal(outputs(model), outputs(plain))
    unseen = [path for path, module in model.named_modules() if type(module) is nn.Linear and path not in seen]
    assert [path for path in unseen if "tag_proj" not in path] == []
    assert [path for path, x, before in kept if not torch.equal(x, before)] == []


@pytest.mark.parametrize("name", NAMES)
def test_dynamic_quantization(name: str) -> None:
    """Every linear layer is quantized and called: the logits are near those of fp32, and not equal."""
    model = case(name)
    quantized = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    for got, wanted in zip(outputs(quantized), outputs(model), strict=True):
        error = (got - wanted).norm() / wanted.norm()
        assert 0 < error < 0.1


@pytest.mark.parametrize("name", ["hybrid-heads", "hybrid-joint", "mgsa-tags"])
def test_quantization_noise_reaches_every_linear_layer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arch, flags = CASES[name]
    model = build(arch, [*flags, "--quant-noise-pq", "0.5", "--quant-noise-pq-block-size", "4"])
    before = {each: layer.weight.clone() for each, layer in linear_layers(model).items()}
    trained(model)  # each pass drops blocks of the weights themselves
    assert [each for each, layer in linear_layers(model).items() if torch.equal(layer.weight, before[each])] == []
    monkeypatch.setattr(torch.Tensor, "cuda", lambda x: x)  # fairseq's quantization is for a GPU alone
    layers = len(linear_layers(case(name)))
    model = quantize_model_scalar(build(arch, flags), Namespace(quant_noise_scalar=0.5))
    trained(model)
    quantized = [layer for each in attentions(model) for layer in each.modules() if isinstance(layer, IntLinear)]
    assert len(quantized) == layers and all(layer.counter for layer in quantized)


def test_torchscript_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"^TorchScript.* cannot compile this attention: call the model as it is; .*$"):
        torch.jit.script(case("transformer_mma_tiny"))


# ------------------------------------------------------------------------------------------ several backward passes


@pytest.mark.parametrize("name", NAMES)
def test_a_second_backward_pass_gives_the_same_gradients(name: str) -> None:
    model = case(name).train()
    sample = {**SAMPLE, "net_input": with_phrases(model, SAMPLE["net_input"])}
    loss = criterion()(model, sample)[0]
    loss.backward(retain_graph=True)
    first = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    loss.backward()
    found = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
    torch.testing.assert_close(found, first)
