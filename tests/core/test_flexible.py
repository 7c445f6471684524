"""FlexAttention computes what the products compute, wherever a mechanism describes itself by positions."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.core import flexible
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.core.call import Call
from fairseq_localattn.grammar.build import attention
from fairseq_localattn.kernels import flex
from fairseq_localattn.kernels.windows import Score, Window
from support.mechanisms.inputs import DIM, HEADS, compute_by, future, make
from support.models import batch, build, loss

TEXTS = [
    "2*local(window=3) + 1*forward + 1*backward",
    "csan(window=5, head_span=1)",
    "sman(boundary=2)",
    "sman(boundary=none)",
    "dman(max_distance=9)",
    "sinks(window=4, sinks=2)",
    "t5(buckets=8, max_distance=20)",
    "shaw(max_distance=2, own_tables=true, values=false)",
    "gauss",
    "gauss(width=head)",
    "gauss(width=4, cut=true)",
    "gauss(width=keys, hidden=linear)",
    "local(window=8) & alibi",
    "sinks(window=5, sinks=3) & local(window=4) & t5(buckets=8, max_distance=20)",
    "rope & backward & dman",
    "2*(local(window=3) & gauss) + 2*global",
]
WITHOUT = ["san", "rope", "mw", "aw", "shaw", "gauss(product=true)", "csan(window=3)", "alibi & mw"]
QUICK = ("2*local(window=3) + 1*forward + 1*backward", "sman(boundary=none)", "sinks(window=4, sinks=2)")
CASES = [
    pytest.param(text, site, marks=[] if site == "encoder" and text in QUICK else pytest.mark.slow)
    for text in TEXTS
    for site in ("encoder", "decoder")
    if site == "encoder" or "forward" not in text
]
CASES.append(pytest.param("gauss", "cross"))
# Of each kind of window and score one, for a test that compiles for seconds.
COMPILED = [("2*local(window=3) + 1*forward + 1*backward", "encoder"), ("sman(boundary=none)", "decoder")]
COMPILED += [("gauss(width=4, cut=true)", "encoder"), ("rope & backward & dman", "encoder")]
COMPILED += [("shaw(max_distance=2, own_tables=true, values=false)", "decoder"), ("local(window=8) & alibi", "decoder")]
# Each at one site, for tests on a GPU.
ONE_SITE = [(text, "decoder" if n % 2 and "forward" not in text else "encoder") for n, text in enumerate(TEXTS)]
ON_A_GPU = [(*case, torch.float32) for case in ONE_SITE]
ON_A_GPU += [(*case, dtype) for case in ONE_SITE[:6:2] for dtype in (torch.bfloat16, torch.float16)]


@pytest.fixture(autouse=True)
def uncompiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch's reference of FlexAttention run without Dynamo, which takes a second for each kind of score."""
    from torch.nn.attention import flex_attention

    compiled = "compiled" in request.fixturenames
    if not compiled and hasattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"):
        monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
        monkeypatch.setattr(flex, "_compiled", lambda *_: flex._attend)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the numbers of heads that FlexAttention computes."""
    found: list[int] = []

    def count(q: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        found.append(q.size(1))
        return compute(q, *args, **kwargs)

    compute = flexible.flex_attention
    monkeypatch.setattr(flexible, "flex_attention", count)
    flexible._log_once.cache_clear()
    return found


def padding_of(kind: str, length: int) -> Tensor | None:
    """Return padding of three sentences: none; behind or before the words; or on both sides."""
    if kind == "none":
        return None
    position, size = torch.arange(length), torch.tensor([0, length // 3, length - 1])[:, None]
    left, right = position < size, position >= length - size
    return {"left": left, "right": right, "both": (position < size // 2) | (position >= length - size // 2)}[kind]


def outputs(module: LocalAttention, implementation: str, x: Tensor, **options: Any) -> Tensor:
    compute_by(module, implementation)
    with torch.no_grad():
        return module(x if module.self_attention else x[:9], x, x, need_weights=False, **options)[0]


@pytest.mark.parametrize(("text", "site"), CASES)
def test_flex_computes_what_the_products_compute(text: str, site: str, calls: list[int]) -> None:
    """All padding, and lengths of one block and of several; also at queries that see nothing."""
    module = make(text, site)
    for length, kind in ((13, "left"), (150, "none"), (150, "right"), (270, "both")):
        x, padding = torch.randn(length, 3, DIM), padding_of(kind, length)
        mask = future(length) if site == "decoder" else None
        options = {"key_padding_mask": padding, "attn_mask": mask}
        before = len(calls)
        got, wanted = (outputs(module, name, x, **options) for name in ("flex", "products"))
        assert len(calls) > before and sum(calls[before:]) <= HEADS
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def gradients(module: LocalAttention, implementation: str, x: Tensor, **options: Any) -> list[Tensor]:
    """Return the output, and the gradients of input and parameters; those that are not there are 0."""
    compute_by(module, implementation)
    leaves = [x.detach().requires_grad_(), *module.parameters()]
    out = module(leaves[0], leaves[0], leaves[0], need_weights=False, **options)[0]
    probe = torch.randn(out.shape, generator=torch.Generator().manual_seed(7)).to(out)
    return [out.detach(), *torch.autograd.grad((out * probe).sum(), leaves, materialize_grads=True)]


def compare_errors(found: list[Tensor], other: list[Tensor], exact: list[Tensor]) -> None:
    """Compare results in half precision with those in fp32: errors are up to three times those of ``other``.

    A bias of keys has a gradient of 0, so all that is found there is error.
    """
    least = 1e-3 * max(float(x.norm()) for x in exact)
    for got, same, want in zip(found, other, exact, strict=True):
        error, usual = (float((x.double() - want).norm()) for x in (got, same))
        assert error <= 3 * usual + least


def compare(found: list[Tensor], wanted: list[Tensor], tolerance: float) -> None:
    """Compare results one by one; a bias of keys has a gradient of 0 up to the rounding of the others."""
    least = 1e-2 * max(float(x.abs().max()) for x in wanted)
    for got, want in zip(found, wanted, strict=True):
        scale = max(float(want.abs().max()), least)
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [True])
@pytest.mark.parametrize(("text", "site"), COMPILED)
def test_gradients(text: str, site: str, compiled: bool, calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients equal those of torch's reference, whose backward pass runs on a CPU although torch refuses it there."""
    from torch.nn.attention import flex_attention

    if not hasattr(flex_attention, "_validate_device"):
        pytest.skip("this torch has no reference to call on a CPU")
    monkeypatch.setattr(flex_attention, "_validate_device", lambda *_: None)
    monkeypatch.setattr(flexible, "reason_against_flex", lambda *_: None)
    module = make(text, site).train()
    x, padding = torch.randn(140, 3, DIM), padding_of("left", 140)
    options = {"key_padding_mask": padding, "attn_mask": future(140) if site == "decoder" else None}
    found, wanted = (gradients(module, name, x, **options) for name in ("flex", "products"))
    assert calls
    compare(found, wanted, 1e-4)


@pytest.mark.parametrize("name", ["sdpa", "flex"])
@pytest.mark.parametrize("text", ["t5", "dman", "aw", "gauss(source=input)"])
def test_gradients_beside_rope(text: str, name: str) -> None:
    """torch returns those of queries in another layout, where a bias has a gradient."""
    module, x = make(f"rope & {text}"), torch.randn(6, 3, DIM)
    compare(gradients(module, name, x), gradients(module, "products", x), 1e-4)


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU: FlexAttention has no compiled backward on a CPU"
)
@pytest.mark.parametrize("compiled", [True])
@pytest.mark.parametrize(("text", "site", "dtype"), ON_A_GPU)
def test_gradients_on_a_gpu(text: str, site: str, dtype: torch.dtype, compiled: bool, calls: list[int]) -> None:
    """The kernels are compiled, for lengths that change, in all precisions that a training has."""
    torch.manual_seed(3)
    module = attention(text, 64, HEADS, site=site, self_attention=True).cuda().to(dtype).train()
    for length, kind in ((140, "left"), (300, "right"), (513, "none"), (20, "left")):
        x = torch.randn(length, 3, 64).cuda().to(dtype)
        padding = padding_of(kind, length)
        mask = future(length).cuda().to(dtype) if site == "decoder" else None
        options = {"key_padding_mask": None if padding is None else padding.cuda()}
        before = len(calls)
        found, wanted = (gradients(module, name, x, attn_mask=mask, **options) for name in ("flex", "sdpa"))
        assert len(calls) > before
        if dtype == torch.float32:
            compare(found, wanted, 2e-3)
            continue
        mask = None if mask is None else mask.float()
        exact = gradients(copy.deepcopy(module).float(), "sdpa", x.float(), attn_mask=mask, **options)
        compare_errors(found, wanted, exact)


@pytest.mark.parametrize("text", WITHOUT)
def test_a_mechanism_that_says_nothing_is_computed_by_its_other_steps(text: str, calls: list[int]) -> None:
    module, x = make(text), torch.randn(9, 3, DIM)
    options = {"key_padding_mask": padding_of("left", 9)}
    got, wanted = (outputs(module, name, x, **options) for name in ("flex", "sdpa"))
    assert not calls and torch.equal(got, wanted)


@pytest.mark.parametrize("boolean", [False, True])
def test_masks_that_hide_something_else_than_the_future(boolean: bool, calls: list[int]) -> None:
    """Another mask is computed by the other steps; fairseq's, a part of a larger one, is recognised."""
    module, x = make("local(window=2)", "decoder"), torch.randn(6, 2, DIM)
    large = future(9).isinf() if boolean else future(9)
    outputs(module, "flex", x, attn_mask=large[:6, :6])
    assert len(calls) == 1
    others = [large[:6, 1:7], large[:6, :6].T.contiguous(), large.clone().fill_(False)[:6, :6]]
    large[3, 1] = large[0, 5]  # in place, as nobody should
    for other in (*others, large[:6, :6]):
        got, wanted = (outputs(module, name, x, attn_mask=other) for name in ("flex", "sdpa"))
        assert len(calls) == 1 and torch.equal(got, wanted)


def test_calls_that_flex_cannot_compute(calls: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """Training on a CPU, dropout, weights, fp64 and decoding take sdpa; the log says so once for each reason."""
    x = torch.randn(5, 2, DIM)

    def both(module: LocalAttention, x: Tensor = x, **options: Any) -> None:
        found = []
        for name in ("flex", "sdpa"):
            compute_by(module, name)
            torch.manual_seed(1)
            found.append(module(x, x, x, **{"need_weights": False, **options})[0])
        assert not calls and torch.equal(*found)

    with caplog.at_level(logging.INFO):
        for _ in range(2):
            both(make("local(window=2)"))
        with torch.no_grad():
            both(make("local(window=2)", dropout=0.3).train())
            both(make("local(window=2)").double(), x.double())
            both(make("local(window=2)"), need_weights=True)
            both(make("local(window=2)", "decoder"), x[:1], incremental_state={})
    said = [r.message for r in caplog.records if r.name == flexible.__name__]
    assert len(said) == 3 and all(line.endswith("so sdpa computes such calls") for line in said)
    assert "backward pass on a CPU" in said[0] and "no dropout" in said[1] and "float64" in said[2]


def test_layers_of_a_model_share_a_mask_for_each_batch(calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss is that of the other implementations; a mask is made once for the encoder and once for the decoder."""
    made: list[int] = []

    def make_mask(*args: Any, **kwargs: Any) -> Any:
        made.append(kwargs["heads"])
        return compute(*args, **kwargs)

    compute = flex._make_mask
    monkeypatch.setattr(flex, "_make_mask", make_mask)
    monkeypatch.setattr(flex, "_kept", type(flex._kept)())
    texts = ["--localattn-encoder", "all: local(window=3) & alibi > ffn"]
    texts += ["--localattn-decoder", "all: local > cross > ffn"]
    losses = []
    for name in ("flex", "sdpa"):
        model = build("transformer_hybrid_tiny", [*texts, "--localattn-attention", name]).eval()
        with torch.no_grad():
            losses.append([loss(model, batch([5, 3], [4, 6])), loss(model, batch([9, 9, 2], [8, 3, 7]))])
    layers = len(model.encoder.layers) + len(model.decoder.layers)
    assert len(calls) == 2 * layers and len(made) == 4 < len(calls)
    torch.testing.assert_close(*losses, rtol=1e-5, atol=1e-5)


class StatedAttention(LocalAttention):
    """Every second key; scores fall with the distance, and differ by head. Stated as functions of positions alone."""

    def windows(self) -> tuple[Window, ...]:
        return (Window("every second", seen=lambda frame, device: lambda b, h, i, j: (j - i) % 2 == 0),)

    def position_scores(self, call: Call) -> tuple[Score, ...]:
        return (lambda b, h, i, j: (h + 1) * (i - j).abs() * -0.3,)


def test_functions_of_positions_are_all_that_a_mechanism_must_state(calls: list[int]) -> None:
    """Dense masks, FlexAttention, decoding word by word and rows without a key come from them."""
    torch.manual_seed(3)
    module, x = StatedAttention(DIM, HEADS, self_attention=True).eval(), torch.randn(150, 3, DIM)
    apart = (torch.arange(150)[:, None] - torch.arange(150)).abs()
    padding = padding_of("both", 150)
    assert padding is not None
    padding[1] = torch.arange(150) % 2 == 0  # what even queries see
    got, wanted = (outputs(module, name, x, key_padding_mask=padding) for name in ("flex", "products"))
    q, k, v, _ = module.project(x, x, x)
    hidden = padding[:, None, None] | (apart % 2 == 1)
    scores = q @ k.mT * module.scaling - torch.arange(1, HEADS + 1)[:, None, None] * 0.3 * apart
    weights = scores.masked_fill(hidden, -torch.inf).softmax(-1).nan_to_num()
    equation = module.out_proj((weights @ v).permute(2, 0, 1, 3).flatten(2))
    assert calls == [HEADS] and hidden.all(-1).any()
    torch.testing.assert_close(wanted, equation, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    state: dict[str, Any] = {}
    whole = outputs(module, "products", x[:9], attn_mask=future(9))
    steps = [outputs(module, "products", x[t : t + 1], incremental_state=state) for t in range(9)]
    torch.testing.assert_close(torch.cat(steps), whole, rtol=1e-4, atol=1e-5)
