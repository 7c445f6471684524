"""What makes this package fast computes what the plain way does: products, bands, masks, joins, decoding, flags."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor, nn
from torch.autograd import gradcheck

from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.core.decoding import GrowableCache
from fairseq_localattn.kernels.banded_blocks import BlockLayout, banded_products
from fairseq_localattn.kernels.dense import (
    PRODUCTS_UP_TO,
    attention_by_products,
    paired_scores,
    products_suit,
    scaled_scores,
)
from fairseq_localattn.kernels.dropout import dropout_factors
from fairseq_localattn.kernels.masks import Frame, hidden_and_bias, lowest_score
from fairseq_localattn.kernels.projections import is_by_column, project_jointly
from fairseq_localattn.mechanisms.convolutional import ConvolutionalAttention
from fairseq_localattn.mechanisms.masked import DynamicMaskAttention
from fairseq_localattn.speed import implementation
from support.models import batch, build, dictionary


def heads(*shape: int, seed: int = 0) -> tuple[Tensor, ...]:
    """q, k and v of doubles that need a gradient: B×H×·×D; ``shape``: B, H, T, S, D."""
    generator = torch.Generator().manual_seed(seed)
    batches, count, queries, keys, channels = shape
    lengths = queries, keys, keys
    return tuple(
        torch.randn(batches, count, n, channels, generator=generator, dtype=torch.double).requires_grad_()
        for n in lengths
    )


# ---------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("has_hidden", [False, True])
def test_products_are_softmax_attention(has_bias: bool, has_hidden: bool) -> None:
    q, k, v = heads(2, 3, 4, 5, 2)
    hidden = torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    hidden[1, ..., :2] = True
    bias = torch.randn(3, 4, 5, dtype=torch.double, requires_grad=True)
    given = hidden if has_hidden else None, bias if has_bias else None
    scores = 0.7 * torch.einsum("bhtd,bhsd->bhts", q, k) + (bias if has_bias else 0)
    wanted = (scores.masked_fill(hidden, -torch.inf) if has_hidden else scores).softmax(-1) @ v
    torch.testing.assert_close(attention_by_products(q, k, v, *given, 0.7), wanted)
    assert gradcheck(lambda q, k, v, bias: attention_by_products(q, k, v, given[0], bias, 0.7), (q, k, v, given[1]))


def test_gradients_of_a_query_that_sees_nothing_are_finite() -> None:
    q, k, v = heads(1, 1, 2, 3, 2)
    bias = torch.randn(1, 1, 2, 3, dtype=torch.double, requires_grad=True)
    hidden = torch.tensor([[True, True, True], [False, True, False]])
    attention_by_products(q, k, v, hidden, bias, 1.0).sum().backward()
    assert bias.grad is not None and (bias.grad[..., hidden] == 0).all() and bias.grad.abs().max() > 0
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v))


def test_gradients_with_dropout_are_those_of_the_weights_that_were_kept() -> None:
    q, k, v = heads(2, 2, 3, 4, 2)

    def function(*x: Tensor) -> Tensor:
        torch.manual_seed(3)
        return attention_by_products(*x, None, None, 1.0, 0.4)

    assert gradcheck(function, (q, k, v))
    torch.manual_seed(3)
    weights = (q @ k.transpose(-1, -2)).softmax(-1)
    factors = dropout_factors(weights.flatten(0, 1), 0.4).view_as(weights)
    assert 0 < factors.eq(0).sum() < factors.numel()
    torch.testing.assert_close(function(q, k, v), (weights * factors) @ v)


def test_scaled_scores() -> None:
    q, k, _ = heads(2, 3, 4, 5, 2)
    torch.testing.assert_close(scaled_scores(q, k, 0.3), 0.3 * torch.einsum("bhtd,bhsd->bhts", q, k))
    assert gradcheck(lambda q, k: scaled_scores(q, k, 0.3), (q, k))
    other_q, other_k, _ = heads(2, 3, 4, 5, 2, seed=1)
    pair = paired_scores(q, other_q, k, other_k, 0.3)
    wanted = scaled_scores(q, k, 0.3), scaled_scores(other_q, other_k, 0.3)
    torch.testing.assert_close(pair, torch.stack(wanted), rtol=0, atol=0)
    assert gradcheck(lambda *x: paired_scores(*x, 0.3), (q, other_q, k, other_k))


def test_keys_of_an_encoder_are_laid_out_for_single_queries() -> None:
    """By channel where products are used, also after beams have finished; values, and keys elsewhere, by key."""
    torch.manual_seed(1)
    keys, x = torch.randn(7, 4, 8), torch.randn(1, 4, 8)
    outputs = []
    for forced, fast in (("auto", True), ("sdpa", False)):
        torch.manual_seed(1)
        module = LocalAttention(8, 2, encoder_decoder_attention=True).eval()
        module.implementation, state = forced, {}
        with torch.no_grad():
            out = [module(x, keys, keys, incremental_state=state, static_kv=True, need_weights=False)[0]]
            module.reorder_incremental_state(state, torch.tensor([2, 0]))
            (buffer,) = state.values()
            assert is_by_column(buffer["prev_key"]) == fast and buffer["prev_value"].is_contiguous()
            rows = x[:, [2, 0]], keys[:, [2, 0]]
            step = {"incremental_state": state, "static_kv": True, "need_weights": False}
            out.append(module(rows[0], rows[1], rows[1], **step)[0])
        torch.testing.assert_close(out[1], out[0][:, [2, 0]])
        outputs.append(torch.cat(out, dim=1))
    torch.testing.assert_close(*outputs)


def test_a_transposed_input_is_not_multiplied_sentence_by_sentence() -> None:
    module = LocalAttention(8, 2, self_attention=True)
    x = torch.randn(5, 3, 8).transpose(0, 1)  # what the first layer of a stack gets
    for mode in (module.train(), module.eval()):
        with torch.profiler.profile() as profile:
            mode.project(x, x, x)
        called = {event.key for event in profile.key_averages()}
        assert "aten::addmm" in called and not called & {"aten::bmm", "aten::baddbmm", "aten::matmul"}


@pytest.mark.parametrize(("head_span", "half_width", "block", "length"), [(1, 2, 3, 8), (3, 1, 4, 4), (5, 3, 3, 7)])
def test_banded_products_see_their_stretch_and_their_neighbours(
    head_span: int, half_width: int, block: int, length: int
) -> None:
    """By loops: query i of head h over the keys at distance ≤ half_width of the heads at distance ≤ head_span // 2."""
    batches, count, channels = 2, 5, 2
    q, k, v = heads(batches, count, length, length, channels)
    blocks = -(-length // block)
    line = BlockLayout(batches, count, blocks, block, half_width, head_span)
    query = torch.arange(blocks * block).view(blocks, block, 1)
    key = torch.arange(blocks)[:, None, None] * block + torch.arange(-half_width, block + half_width)
    outside = (key < 0) | (key >= length) | ((key - query).abs() > half_width)
    mask = torch.zeros(outside.shape, dtype=torch.double).masked_fill(outside, lowest_score(torch.double))[None]
    wanted = torch.empty(batches, count, length, channels, dtype=torch.double)
    for b in range(batches):
        for h in range(count):
            for i in range(length):
                seen = [
                    (g, j)
                    for g in range(max(0, h - head_span // 2), min(count, h + head_span // 2 + 1))
                    for j in range(max(0, i - half_width), min(length, i + half_width + 1))
                ]
                weights = torch.stack([0.5 * q[b, h, i] @ k[b, g, j] for g, j in seen]).softmax(0)
                wanted[b, h, i] = sum(w * v[b, g, j] for w, (g, j) in zip(weights, seen, strict=True))
    torch.testing.assert_close(banded_products(q, k, v, mask, line, 0.5), wanted)
    assert gradcheck(lambda q, k, v: banded_products(q, k, v, mask, line, 0.5), (q, k, v))


def test_which_implementation_suits() -> None:
    q = torch.zeros(1, 1, 3, 2)
    short, long = torch.zeros(1, 1, PRODUCTS_UP_TO, 2), torch.zeros(1, 1, PRODUCTS_UP_TO + 1, 2)
    assert products_suit(q, short, None, 0.0) and not products_suit(q, long, None, 0.0)
    assert products_suit(q, long, None, 0.1), "torch's kernel for CPUs has no dropout"
    assert products_suit(q, long, torch.zeros(1, requires_grad=True), 0.0), "nor a mask with a gradient"
    assert products_suit(q, long, None, 0.0, banded=True)
    assert not products_suit(q.half(), short.half(), None, 0.0)
    assert products_suit(q, long, None, 0.0, "products") and not products_suit(q, short, None, 0.1, "sdpa")
    with torch.autocast("cpu", torch.bfloat16):
        assert not products_suit(q, short, None, 0.0) and not products_suit(q, short, None, 0.0, "products")


MAKES = [
    lambda: LocalAttention(8, 4, self_attention=True),
    lambda: ConvolutionalAttention(8, 4, window=3, head_span=3, self_attention=True),
    lambda: DynamicMaskAttention(8, 4, self_attention=True),
]


@pytest.mark.parametrize("length", [7, 230])
@pytest.mark.parametrize("make", MAKES, ids=["san", "csan", "dman"])
def test_forced_implementations_agree(make: Any, length: int) -> None:
    module = make().double()
    x = torch.randn(length, 2, 8, dtype=torch.double)
    padding = torch.zeros(2, length, dtype=torch.bool)
    padding[1, :3] = True
    results = []
    for name in ("auto", "products", "sdpa"):
        module.implementation = name
        module.zero_grad()
        out, _ = module(x, x, x, key_padding_mask=padding, need_weights=False)
        real = out[~padding.T]  # what the first of the padding gets, which sees nothing, is nobody's business
        real.square().sum().backward()
        results.append([real, *(p.grad for p in module.parameters())])
    for other in results[1:]:
        for got, wanted in zip(other, results[0], strict=True):
            torch.testing.assert_close(got, wanted)


# ---------------------------------------------------------------------------------------------- masks, projections


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_mask_that_only_hides_is_taken_as_boolean(dtype: torch.dtype) -> None:
    causal = torch.full((3, 3), -torch.inf).triu(1)
    hidden, bias = hidden_and_bias(Frame(3, 3, attn_mask=causal), None, None, dtype)
    assert bias is None and torch.equal(hidden, causal.isinf())
    learned = nn.Parameter(causal.clone())  # and has learnt nothing yet
    assert hidden_and_bias(Frame(3, 3, attn_mask=learned), None, None, dtype)[1].requires_grad
    slopes = causal - torch.arange(3.0)  # as ALiBi's
    hidden, bias = hidden_and_bias(Frame(3, 3, attn_mask=slopes), None, None, dtype)
    assert hidden is None and torch.equal(bias.isfinite(), torch.ones(3, 3).bool())
    assert torch.equal(bias[2], -torch.arange(3.0)) and (bias[0, 1:] <= lowest_score(dtype)).all()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("frozen", [None, "weight", "bias", "input"])
def test_joint_projections_have_the_gradients_of_single_ones(bias: bool, frozen: str | None) -> None:
    projections = [nn.Linear(6, 8, bias=bias).double() for _ in range(3)]
    x = torch.randn(4, 3, 6, dtype=torch.double, requires_grad=frozen != "input")
    if frozen in ("weight", "bias") and (bias or frozen == "weight"):
        getattr(projections[1], frozen).requires_grad_(False)
    parameters = [p for each in projections for p in each.parameters() if p.requires_grad]
    wanted = [each(x).unflatten(-1, (2, 4)) for each in projections]
    factors = [torch.randn_like(y) for y in wanted]
    inputs = [*parameters, x] if x.requires_grad else parameters
    expected = torch.autograd.grad(wanted, inputs, factors)
    got = project_jointly(x, projections, 2)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other)
    for one, other in zip(torch.autograd.grad(got, inputs, factors), expected, strict=True):
        torch.testing.assert_close(one, other)
    # An output that nobody uses has a gradient of 0.
    (by_unused,) = torch.autograd.grad(project_jointly(x, projections, 2)[0].sum(), [projections[2].weight])
    assert (by_unused == 0).all()


# ---------------------------------------------------------------------------------------------- decoding


def test_room_behind_cached_keys_is_used_once() -> None:
    room, keys = GrowableCache(), torch.randn(3, 2, 4, 5)
    order = torch.tensor([2, 2, 0, 1])
    taken = room.reorder("k", keys, order)
    first, second = torch.randn(4, 2, 1, 5), torch.randn(4, 2, 1, 5)
    one = room.append("k", taken, first)
    two = room.append("k", taken, second)  # another branch from the same state
    assert torch.equal(one, torch.cat([keys[order], first], dim=2))
    assert torch.equal(two, torch.cat([keys[order], second], dim=2))
    assert torch.equal(room.append("k", keys, keys), torch.cat([keys, keys], dim=2))


def test_joined_projections_follow_the_parameters() -> None:
    """In decoding they are kept; not beyond a change of the parameters, nor a step of training."""
    module = LocalAttention(8, 2, self_attention=True).eval()
    x = torch.randn(1, 3, 8)

    def output() -> Tensor:
        with torch.no_grad():
            return module(x, x, x, need_weights=False)[0]

    def fresh() -> Tensor:
        with torch.no_grad():
            twin = LocalAttention(8, 2, self_attention=True).eval()
            twin.load_state_dict(module.state_dict())
            return twin(x, x, x, need_weights=False)[0]

    before = output()
    assert module._joined._kept
    with torch.no_grad():
        module.v_proj.weight.mul_(2)
    assert not torch.allclose(output(), before)
    torch.testing.assert_close(output(), fresh())
    module.v_proj.weight.data.copy_(torch.randn(8, 8))  # as fairseq's half-precision optimizer does: in training
    module.train()
    module.eval()
    torch.testing.assert_close(output(), fresh())
    assert copy.deepcopy(module).state_dict().keys() == module.state_dict().keys()


@pytest.mark.parametrize("arch", ["transformer_mma_tiny", "transformer_diffwin_tiny"])
def test_a_narrower_beam_after_a_wide_one(arch: str) -> None:
    """fairseq tells a model its beam only where it is above 1: what was told before must not mix sentences."""
    sample = batch([6, 5, 4, 4], [3, 3, 3, 3])
    words, model = dictionary(), build(arch).eval()

    def search(beam: int, model: Any) -> list[list[int]]:
        generator = SequenceGenerator([model], words, beam_size=beam, max_len_b=6)
        return [found[0]["tokens"].tolist() for found in generator.generate([model], sample)]

    wanted = search(1, build(arch).eval())
    search(2, model)
    assert model.decoder.layers[0].encoder_attn.beam_size == 2, "the beam did not reach the attention"
    assert search(1, model) == wanted


def test_equal_sentences_are_no_beam() -> None:
    """Rows of one sentence, and told a beam: they may end apart from each other, which those of a beam do not."""
    model = build("transformer_mma_tiny").eval()
    attention = model.decoder.layers[0].encoder_attn
    attention.set_beam_size(2)
    keys = torch.randn(5, 2, 64).repeat_interleave(2, dim=1)  # A A B B
    x = torch.randn(1, 4, 64)
    state: dict[str, Any] = {}
    options = {"incremental_state": state, "static_kv": True, "need_weights": False}
    with torch.no_grad():
        attention(x, keys, keys, **options)
        for order in ([1, 2, 3], [0, 2]):  # the first row ends, then the second of B
            attention.reorder_incremental_state(state, torch.tensor(order))
            x, keys = x[:, order], keys[:, order]
            got, _ = attention(x, keys, keys, **options)
            wanted, _ = attention(x, keys, keys, need_weights=False)
            torch.testing.assert_close(got, wanted)


# ---------------------------------------------------------------------------------------------- flags


def test_the_log_says_how_attention_is_computed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        model = build("transformer_csan_tiny", ["--localattn-attention", "sdpa"])
    line = next(record.message for record in caplog.records if record.name == implementation.__name__)
    assert "1 csan" in line and "5 san" in line and "implementation: sdpa" in line and "fp32 matrix products" in line
    assert "label-smoothed loss of fp32 in the place of logits" in line
    chosen = {module.implementation for module in model.modules() if isinstance(module, LocalAttention)}
    assert chosen == {"sdpa"}


def test_a_checkpoint_from_before_the_flags_builds() -> None:
    model = build("transformer_mma_tiny", localattn_attention=None, localattn_cpu_matmul=None, localattn_loss=None)
    assert model.encoder.layers[0].self_attn.implementation == "auto" and model.loss_in_place


@pytest.fixture
def fp32_products() -> Iterator[Callable[[], str]]:
    """What the process has set for products of fp32 on the CPU; put back after the test."""
    if not hasattr(torch.backends.mkldnn, "matmul"):
        pytest.skip("torch before 2.9 has no setting to look at")

    def setting() -> str:
        return torch._C._get_fp32_precision_getter("mkldnn", "matmul")

    before = setting()
    yield setting
    torch.backends.mkldnn.matmul.fp32_precision = before


def test_bf16_products_where_the_cpu_has_none(
    fp32_products: Callable[[], str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = fp32_products()
    monkeypatch.setattr(implementation, "_rounds_to_bf16", lambda: False)
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "bf16"])
    assert "no products of bfloat16" in caplog.text and fp32_products() == before


def test_bf16_products(fp32_products: Callable[[], str], caplog: pytest.LogCaptureFixture) -> None:
    """The setting, the log and the error of a product agree, on CPUs with products of bfloat16 and without."""
    x = torch.randn(256, 256)
    exact = x.double() @ x.double()

    def error() -> float:
        return ((x @ x - exact).norm() / exact.norm()).item()

    build("transformer_mma_tiny")
    assert error() < 1e-5
    before = fp32_products()
    build("transformer_mma_tiny", ["--localattn-cpu-matmul", "bf16"])
    if "no products of bfloat16" in caplog.text:
        assert fp32_products() == before and error() < 1e-5
    else:
        assert fp32_products() == "bf16" and 1e-4 < error() < 1e-2
    build("transformer_mma_tiny")  # a model that does not ask for it does not get it
    assert fp32_products() == before
