"""What the layers of a forward pass share, and that nothing of it outlives the pass or a change."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.grammar.torch_module import attention
from fairseq_localattn.kernels import passes
from fairseq_localattn.kernels.masks import Frame, hidden_and_bias, join_masks
from fairseq_localattn.kernels.passes import forward_pass, is_shared, shared


def count_of(padding: Tensor, made: list[Tensor]) -> Tensor:
    def count() -> Tensor:
        made.append(padding.sum())
        return made[-1]

    return shared(count, "count", padding)


def test_layers_of_one_pass_share() -> None:
    padding = torch.zeros(3, 4, dtype=torch.bool)
    made: list[Tensor] = []
    with forward_pass():
        first = count_of(padding, made)
        assert first is count_of(padding[:], made) and is_shared(first)
        count_of(padding[:2], made)
        count_of(torch.zeros_like(padding), made)
        with forward_pass(share=False):
            assert count_of(padding, made) is not first and not is_shared(first)
    assert len(made) == 4
    with forward_pass():
        count_of(padding, made)
    count_of(padding, made)
    assert len(made) == 6, "neither the next pass nor a call outside of one takes what was made before"


@pytest.mark.parametrize("inference", [False, True])
def test_a_batch_that_refills_the_last_ones_tensor(inference: bool) -> None:
    """As a CUDA graph does, whose inputs stay where they are; in inference mode torch counts no changes."""
    with torch.inference_mode(inference):
        padding = torch.zeros(3, 4, dtype=torch.bool)
        made: list[Tensor] = []
        for number in range(3):
            padding[:, :number] = True
            with forward_pass():
                assert count_of(padding, made) == count_of(padding, made) == 3 * number
        assert len(made) == 3
    with forward_pass():
        padding = torch.zeros(3, 4, dtype=torch.bool)
        assert count_of(padding, made) == 0
        padding[0, 0] = True
        assert count_of(padding, made) == 1, "a tensor changed in place is another"


def test_a_graph_takes_nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    padding = torch.zeros(3, 4, dtype=torch.bool)
    made: list[Tensor] = []
    with forward_pass():
        count_of(padding, made)
        monkeypatch.setattr(passes, "is_capturing", lambda: True)
        count_of(padding, made)  # captured in the middle of a pass: a layer by itself
        count_of(padding, made)
        with forward_pass():
            count_of(padding, made)
            count_of(padding, made)
    assert len(made) == 4


def test_each_layer_has_its_own_gradients() -> None:
    weight = torch.ones(3, requires_grad=True)
    with forward_pass():
        assert shared(lambda: weight * 2, weight) is not shared(lambda: weight * 2, weight)
        with torch.no_grad():
            assert shared(lambda: weight * 2, weight) is shared(lambda: weight * 2, weight)


def test_memory_is_released_with_the_pass() -> None:
    with forward_pass():
        padding = torch.zeros(3, 4, dtype=torch.bool)
        result = weakref.ref(count_of(padding, []))
        padding, held = weakref.ref(padding), padding  # type: ignore[assignment]
        del held
        gc.collect()
        assert result() is not None and padding() is not None  # type: ignore[operator]
    gc.collect()
    assert result() is None and padding() is None  # type: ignore[operator]


def test_a_bias_of_one_layer_is_not_held() -> None:
    """With a window that all share: the mask of both is that of the layer alone."""
    frame = Frame(4, 4, key_padding_mask=torch.zeros(2, 4, dtype=torch.bool))
    with forward_pass(), torch.no_grad():
        masks: list[Any] = []
        for _ in range(2):
            hidden, bias = hidden_and_bias(frame, None, torch.randn(1, 4, 4), torch.float32)
            masks.append(join_masks(hidden, bias, torch.float32))
        assert is_shared(hidden) and not torch.equal(*masks) and not any(map(is_shared, masks))


@pytest.mark.parametrize("text", ["4*local", "alibi", "csan(window=3)", "sinks", "sman(boundary=none)", "gauss"])
def test_attentions_in_a_pass_equal_those_alone(text: str) -> None:
    module = attention(text, 32, 4, batch_first=True)
    x, padding = torch.randn(3, 6, 32), torch.arange(6) < torch.tensor([[0], [2], [6]])
    causal = torch.full((6, 6), -torch.inf).triu(1)
    calls = [{}, {"key_padding_mask": padding}, {"attn_mask": causal}]
    calls += [{"key_padding_mask": padding, "attn_mask": causal}, {"key_padding_mask": padding.flip(0)}]
    alone = [module(x, x, x, **call)[0] for call in calls]
    with forward_pass():
        for call, wanted in zip(calls * 2, alone * 2, strict=True):
            assert torch.equal(module(x, x, x, **call)[0], wanted)
