"""LocalAttention: agreement of implementations, joined projections, and caches in beam search."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.core.decoding import GrowableCache
from fairseq_localattn.kernels.projections import is_column_major
from support.mechanisms.inputs import compute_by
from support.models import batch, build, dictionary


def test_keys_of_an_encoder_are_laid_out_for_single_queries() -> None:
    """Keys are column-major where products are used, also after beams have finished; values never are."""
    torch.manual_seed(1)
    keys, x = torch.randn(7, 4, 8), torch.randn(1, 4, 8)
    outputs = []
    for forced, fast in (("auto", True), ("sdpa", False)):
        torch.manual_seed(1)
        module = LocalAttention(8, 2, encoder_decoder_attention=True).eval()
        compute_by(module, forced)
        state: dict[str, Any] = {}
        with torch.no_grad():
            out = [module(x, keys, keys, incremental_state=state, static_kv=True, need_weights=False)[0]]
            module.reorder_incremental_state(state, torch.tensor([2, 0]))
            (buffer,) = state.values()
            assert is_column_major(buffer["prev_key"]) == fast and buffer["prev_value"].is_contiguous()
            rows = x[:, [2, 0]], keys[:, [2, 0]]
            step = {"incremental_state": state, "static_kv": True, "need_weights": False}
            out.append(module(rows[0], rows[1], rows[1], **step)[0])
        torch.testing.assert_close(out[1], out[0][:, [2, 0]])
        outputs.append(torch.cat(out, dim=1))
    torch.testing.assert_close(*outputs)


def test_a_transposed_input_is_not_multiplied_sentence_by_sentence() -> None:
    module = LocalAttention(8, 2, self_attention=True)
    x = torch.randn(5, 3, 8).transpose(0, 1)  # as the input of a stack's first layer
    for mode in (module.train(), module.eval()):
        with torch.profiler.profile() as profile:
            mode.project(x, x, x)
        called = {event.key for event in profile.key_averages()}
        assert "aten::addmm" in called and not called & {"aten::bmm", "aten::baddbmm", "aten::matmul"}


def test_room_behind_cached_keys_is_used_once() -> None:
    cache, keys = GrowableCache(), torch.randn(3, 2, 4, 5)
    order = torch.tensor([2, 2, 0, 1])
    taken = cache.reorder("k", keys, order)
    first, second = torch.randn(4, 2, 1, 5), torch.randn(4, 2, 1, 5)
    one = cache.append("k", taken, first)
    two = cache.append("k", taken, second)  # another branch from the same state
    assert torch.equal(one, torch.cat([keys[order], first], dim=2))
    assert torch.equal(two, torch.cat([keys[order], second], dim=2))
    assert torch.equal(cache.append("k", keys, keys), torch.cat([keys, keys], dim=2))


@pytest.mark.parametrize("arch", ["transformer_mma_tiny", "transformer_diffwin_tiny"])
def test_a_narrower_beam_after_a_wide_one(arch: str) -> None:
    """fairseq announces a beam size only above 1: an earlier announcement must not mix sentences."""
    sample = batch([6, 5, 4, 4], [3, 3, 3, 3])
    words, model = dictionary(), build(arch).eval()

    def search(beam: int, model: Any) -> list[list[int]]:
        generator = SequenceGenerator([model], words, beam_size=beam, max_len_b=6)
        return [found[0]["tokens"].tolist() for found in generator.generate([model], sample)]

    wanted = search(1, build(arch).eval())
    search(2, model)
    assert model.decoder.layers[0].encoder_attn.beam_size == 2, "the beam did not reach the attention"
    assert search(1, model) == wanted


def test_a_beam_projects_its_keys_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, values and what a mechanism needs besides come from one product, as without a beam."""
    attention = build("transformer_diffwin_tiny").decoder.layers[0].encoder_attn.eval()
    projected: list[tuple[str, ...]] = []
    project = type(attention).project_heads

    def recorded(self: LocalAttention, x: Tensor, names: tuple[str, ...], state: Any = None) -> list[Tensor]:
        projected.append(tuple(names))
        return project(self, x, names, state)

    monkeypatch.setattr(type(attention), "project_heads", recorded)
    keys = torch.randn(5, 2, 64).repeat_interleave(3, dim=1)
    calls = []
    for beam in (1, 3):
        attention.set_beam_size(beam)
        with torch.no_grad():
            attention(torch.randn(1, 6, 64), keys, keys, incremental_state={}, static_kv=True, need_weights=False)
        calls.append(projected[:])
        projected.clear()
    assert calls[0] == calls[1] and len(calls[0]) == 2


@pytest.mark.parametrize("arch", ["transformer_csan_tiny", "transformer_diffwin_tiny", "transformer_hybrid_tiny"])
def test_joint_projections_of_older_checkpoints(arch: str) -> None:
    """fairseq's ``in_proj_weight`` and ``in_proj_bias`` hold queries, keys and values one after the other."""
    model, other = build(arch), build(arch, seed=2)
    state = model.state_dict()
    for name in [name.removesuffix("q_proj.weight") for name in state if name.endswith("self_attn.q_proj.weight")]:
        for kind in ("weight", "bias"):
            state[f"{name}in_proj_{kind}"] = torch.cat([state.pop(f"{name}{p}_proj.{kind}") for p in "qkv"])
    other.load_state_dict(state)
    assert all(torch.equal(weight, other.state_dict()[key]) for key, weight in model.state_dict().items())


def test_an_unknown_implementation_is_refused() -> None:
    with pytest.raises(
        ValueError, match="unknown implementation 'cudnn': choose from auto, products, sdpa, flex, triton"
    ):
        LocalAttention(8, 2, implementation="cudnn")
