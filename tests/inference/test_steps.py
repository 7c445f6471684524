"""A step of decoding: its operations on the processor, and the cache that the hypotheses of a sentence share."""

from __future__ import annotations

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from fairseq_localattn.core.paths import BeamState
from fairseq_localattn.inference.int8 import to_int8
from support.inference.models import batch_of, random_model, without_fairseq

BEAM = 5
# Operations of a step of two layers, in fp32 and in 8 bits, as counted with torch 2.13.
COUNTED = {
    "transformer_mma_tiny": (247, 194),
    "transformer_rope_tiny": (287, 212),
    "transformer_alibi_tiny": (268, 198),
    "transformer_t5bias_tiny": (308, 220),
    "transformer_man_tiny": (395, 294),
    "transformer_diffwin_tiny": (346, 269),
}
SPARE = 1.1  # versions of torch differ
# Views cost little, and the number of empty tensors is that of other operations.
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
        ours.decoder.reorder(state, torch.arange(2).repeat_interleave(BEAM), None)
        ours.decoder(words, 1, memory, state)
        with profile(activities=[ProfilerActivity.CPU]) as found:
            ours.decoder.reorder(state, torch.arange(2 * BEAM).view(2, -1).flip(1).flatten(), None)
            ours.decoder(words, 2, memory, state)
    names = [event.name.partition("::")[2].strip("_") for event in found.events() if "::" in event.name]
    return sum(not name.startswith(VIEWS) for name in names)


@pytest.mark.parametrize("int8", [False, True], ids=["fp32", "int8"])
@pytest.mark.parametrize("name", COUNTED)
def test_a_step_takes_few_operations(name: str, int8: bool) -> None:
    assert 50 < operations(name, int8) <= SPARE * COUNTED[name][int8]


def test_columns_on_no_path_are_dropped() -> None:
    """A random search keeps the words of each path, whichever columns they move to."""
    generator, words = torch.Generator().manual_seed(1), torch.zeros(3, 0, dtype=torch.long)
    state, told = BeamState(), torch.zeros(3, 1, 0, dtype=torch.long)
    dropped = 0
    for step in range(60):
        rows = 3 * (1 if step == 0 else BEAM)
        new = torch.randint(100, (rows,), generator=generator)
        state.begin_step(new)
        words = torch.cat([words, new.view(3, -1)], dim=1)
        told = torch.cat([told, new.view(3, -1, 1)], dim=2)
        assert state.paths is not None and state.paths.columns == words.size(1)
        order = torch.randint(rows // 3, (3, BEAM), generator=generator) + torch.arange(3)[:, None] * (rows // 3)
        kept = state.reorder(order.flatten(), 3)
        told = told.flatten(0, 1)[order.flatten()].view(3, BEAM, -1)
        if kept is not None:
            dropped += words.size(1) - kept.size(1)
            words = words.gather(1, kept)
        found = words[:, None].expand(-1, BEAM, -1).gather(2, state.paths.places)
        assert torch.equal(found, told)
    assert state.paths is not None
    assert dropped > 100 and state.paths.columns < 150
