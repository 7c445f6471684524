"""A step of decoding: its operations on the processor, and the cache that the hypotheses of a sentence share."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from fairseq_localattn.core.paths import BeamState
from fairseq_localattn.inference.linear import to_int8
from support.inference.models import batch_of, random_model, without_fairseq

BEAM = 5
# Operations of a step of two layers, in fp32 and in 8 bits, as counted with torch 2.13.
COUNTED = {
    "transformer_mma_tiny": (249, 152),
    "transformer_rope_tiny": (259, 160),
    "transformer_alibi_tiny": (255, 158),
    "transformer_t5bias_tiny": (270, 173),
    "transformer_man_tiny": (401, 258),
    "transformer_diffwin_tiny": (361, 219),
}
SPARE = 1.1  # versions of torch differ
# Views cost little, and the number of empty tensors is that of other operations; a "to" that converts makes a copy.
VIEWS = ("view", "transpose", "permute", "select", "slice", "unsqueeze", "expand", "as_strided", "unbind", "flatten",
         "empty", "unflatten")  # fmt: skip


def operations(name: str, int8: bool) -> int:
    """Return the operations of a step for all hypotheses, views aside."""
    model, args = random_model(name)
    ours = without_fairseq(model, args)
    if int8:
        to_int8(ours)
    words = torch.full((2 * BEAM,), 7)
    with torch.inference_mode():
        memory, state = ours.encoder(batch_of(ours, [7, 9])["src_tokens"]), ours.decoder.start()
        ours.decoder(torch.tensor([2, 2]), 0, memory, state)
        ours.decoder.reorder(state, torch.arange(2).repeat(BEAM), None)
        ours.decoder(words, 1, memory, state)
        with profile(activities=[ProfilerActivity.CPU]) as found:
            ours.decoder.reorder(state, torch.arange(2 * BEAM).view(-1, 2).flip(0).flatten(), None)
            ours.decoder(words, 2, memory, state)
    names = [event.name.partition("::")[2].strip("_") for event in found.events() if "::" in event.name]
    return sum(not name.startswith(VIEWS) and name != "to" for name in names)


@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
@pytest.mark.parametrize("name", COUNTED)
def test_a_step_takes_few_operations(name: str, int8: bool) -> None:
    operations(name, int8)  # fills the tables of positions that models share
    assert 50 < operations(name, int8) <= SPARE * COUNTED[name][int8]


def test_gradients_change_no_step() -> None:
    found, ours = [], without_fairseq(*random_model("transformer_mma_tiny")).requires_grad_()
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients):
            memory, state = ours.encoder(batch_of(ours, [7, 9])["src_tokens"]), ours.decoder.start()
            for step in range(9):
                found.append(ours.decoder(torch.full((2 * BEAM if step else 2,), 7), step, memory, state))
                ours.decoder.reorder(state, torch.arange(2).repeat(BEAM), None)
    assert found[8].requires_grad and torch.allclose(found[8], found[-1], atol=1e-5)


def test_columns_on_no_path_are_dropped() -> None:
    """A random search keeps the words of each path, whichever columns they move to."""
    generator, words = torch.Generator().manual_seed(1), torch.zeros(3, 0, dtype=torch.long)
    state, told = BeamState(), torch.zeros(1, 3, 0, dtype=torch.long)
    dropped = 0
    for _ in range(60):
        new = torch.randint(100, (len(told), 3), generator=generator)
        state.begin_step(new.flatten())
        words = torch.cat([words, new.T], dim=1)
        told = torch.cat([told, new[..., None]], dim=2)
        assert state.paths is not None and state.paths.columns == words.size(1)
        order = (torch.randint(len(told), (BEAM, 3), generator=generator) * 3 + torch.arange(3)).flatten()
        kept = state.reorder(order, 3)
        told = told.flatten(0, 1)[order].view(BEAM, 3, -1)
        if kept is not None:
            dropped += words.size(1) - kept.size(1)
            words = words.gather(1, kept)
        assert torch.equal(words.expand(BEAM, -1, -1).gather(2, state.paths.places), told)
    assert state.paths is not None
    assert dropped > 100 and state.paths.columns < 150
