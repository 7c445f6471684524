"""Described attention in the place of torch.nn.MultiheadAttention."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import fairseq_localattn
from fairseq_localattn.core.attention import LocalAttention
from fairseq_localattn.errors import UsageError
from fairseq_localattn.grammar.torch_module import DescribedAttention
from fairseq_localattn.grammar.words import PHRASES, WORDS

DIM, HEADS, LENGTH, BATCH = 16, 4, 6, 3
FLOAT = [f"key_padding_mask attn_mask float {lowest}" for lowest in (-torch.inf, torch.finfo().min, -1e9)]
MIXED = "1*local(window=1) + 1*csan(window=3, head_span=1) + 2*(alibi & shaw)"


def torchs(ours: DescribedAttention, batch_first: bool) -> nn.MultiheadAttention:
    """Return torch's own attention with the weights of ours."""
    theirs = nn.MultiheadAttention(DIM, HEADS, batch_first=batch_first)
    theirs.load_state_dict(ours.torch_state_dict())
    return theirs


def masks(kind: str) -> dict[str, Tensor]:
    """Return arguments of a call: padding on the right, a causal mask, both, or none; boolean or float."""
    padding = torch.arange(LENGTH) >= torch.tensor([6, 4, 3])[:, None]
    causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    given = {name: mask for name, mask in (("key_padding_mask", padding), ("attn_mask", causal)) if name in kind}
    if "float" in kind:
        lowest = float(kind.split()[-1])
        given = {name: torch.zeros(mask.shape).masked_fill(mask, lowest) for name, mask in given.items()}
    return given


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("kind", ["", "key_padding_mask", "attn_mask", "key_padding_mask attn_mask", *FLOAT])
def test_san_is_torchs_own(kind: str, average: bool, batch_first: bool) -> None:
    """Outputs, weights and gradients, with masks in torch's polarity."""
    torch.manual_seed(1)
    site = "decoder" if "attn_mask" in kind else "encoder"
    ours = fairseq_localattn.attention("san", DIM, HEADS, batch_first=batch_first, site=site)
    theirs = torchs(ours, batch_first)
    results = []
    for module in (ours, theirs):
        x = torch.linspace(-1, 1, LENGTH * BATCH * DIM).sin().view(LENGTH, BATCH, DIM)
        x = (x.transpose(0, 1) if batch_first else x).contiguous().requires_grad_()
        out, weights = module(x, x, x, average_attn_weights=average, **masks(kind))
        assert weights is not None
        (gradient,) = torch.autograd.grad(out.square().sum() + weights.square().sum(), x)
        results.append((out, weights, gradient))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", ["san", MIXED])
def test_one_sentence_without_batch(text: str) -> None:
    module = fairseq_localattn.attention(text, DIM, HEADS).eval()
    x = torch.randn(LENGTH, DIM)
    one, weights = module(x, x, x)
    many, of_many = module(batch := x[:, None], batch, batch)
    torch.testing.assert_close(one, many[:, 0])
    torch.testing.assert_close(weights, of_many[0])


@pytest.mark.parametrize("text", ["san", MIXED, "local(window=2) & rope", "2*dman + 2*sinks"])
@pytest.mark.parametrize("norm_first", [True, False])
def test_in_torchs_encoder(text: str, norm_first: bool) -> None:
    """Trains a step, and evaluates as it trains: torch's fused path is not taken; padding changes nothing."""
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(DIM, HEADS, 32, dropout=0.0, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first)
    for each in encoder.layers:
        each.self_attn = fairseq_localattn.attention(text, DIM, HEADS, batch_first=True)
    x, padding = torch.randn(BATCH, LENGTH, DIM), masks("key_padding_mask")["key_padding_mask"]
    out = encoder(x, src_key_padding_mask=padding)
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    encoder.eval()
    with torch.no_grad():
        torch.testing.assert_close(encoder(x, src_key_padding_mask=padding), out, rtol=1e-4, atol=1e-5)
        short = encoder(x[2:, :3])
        torch.testing.assert_close(out[2:, :3], short, rtol=1e-4, atol=1e-5)


def test_in_torchs_decoder_no_position_sees_the_future() -> None:
    torch.manual_seed(1)
    layer = nn.TransformerDecoderLayer(DIM, HEADS, 32, dropout=0.0, batch_first=True)
    layer.self_attn = fairseq_localattn.attention(  # type: ignore[assignment]
        "2*(local(window=2) & t5) + 2*dman", DIM, HEADS, batch_first=True, site="decoder"
    )
    layer.multihead_attn = fairseq_localattn.attention(  # type: ignore[assignment]
        "2*aw + 2*san", DIM, HEADS, batch_first=True, site="cross"
    )
    decoder = nn.TransformerDecoder(layer, 2).eval()
    x, memory = torch.randn(BATCH, LENGTH, DIM), torch.randn(BATCH, 5, DIM)
    mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
    out = decoder(x, memory, tgt_mask=mask, tgt_is_causal=True)
    changed = x.clone()
    changed[:, 4:] = 9
    other = decoder(changed, memory, tgt_mask=mask, tgt_is_causal=True)
    torch.testing.assert_close(out[:, :4], other[:, :4])
    assert not torch.allclose(out[:, 4:], other[:, 4:])


@pytest.mark.parametrize(
    "text", ["san", MIXED, "2*(local(window=2) & t5) + 2*dman", "gauss", "2*sman + 2*sinks", "csan"]
)
@pytest.mark.parametrize("more", [{}, {"is_causal": True}, {"need_weights": False}])
def test_a_decoder_without_a_mask_is_causal(text: str, more: dict[str, bool]) -> None:
    """What a call without a mask returns, and its gradients, are those of a call with the causal mask."""
    torch.manual_seed(1)
    module = fairseq_localattn.attention(text, DIM, HEADS, site="decoder").double()
    x = torch.randn(LENGTH, BATCH, DIM, dtype=torch.float64, requires_grad=True)
    for given in ({}, masks("key_padding_mask")):
        out = module(x, x, x, **given, **more)[0]
        masked = module(x, x, x, **given, **more, attn_mask=masks("attn_mask")["attn_mask"])[0]
        torch.testing.assert_close(out, masked)
        gradients = [torch.autograd.grad(each.square().sum(), x)[0] for each in (out, masked)]
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("sizes", [{}, {"kdim": 12, "vdim": 20}, {"kdim": 12}])
def test_torchs_weights_load_and_are_written(sizes: dict[str, int], bias: bool) -> None:
    """Inside of a model too, where the names have a prefix; the outputs are torch's."""
    torch.manual_seed(1)
    theirs = nn.MultiheadAttention(DIM, HEADS, bias=bias, **sizes)
    if bias:
        nn.init.normal_(theirs.in_proj_bias)
    ours = fairseq_localattn.attention("san", DIM, HEADS, bias=bias, site="cross", **sizes)
    nn.ModuleDict({"a": ours}).load_state_dict(nn.ModuleDict({"a": theirs}).state_dict())
    query = torch.randn(4, BATCH, DIM)
    key, value = (torch.randn(LENGTH, BATCH, sizes.get(name, DIM)) for name in ("kdim", "vdim"))
    torch.testing.assert_close(ours(query, key, value), theirs(query, key, value))
    written, expected = ours.torch_state_dict(), theirs.state_dict()
    assert written.keys() == expected.keys()
    for name, tensor in written.items():
        assert torch.equal(tensor, expected[name]), name


def test_torchs_weights_leave_the_mechanisms_own() -> None:
    ours = fairseq_localattn.attention("dman", DIM, HEADS)
    theirs = nn.MultiheadAttention(DIM, HEADS).state_dict()
    own = {name for name in ours.state_dict() if "proj" not in name}
    found = ours.load_state_dict(theirs, strict=False)
    assert own and set(found.missing_keys) == own and not found.unexpected_keys


@pytest.mark.parametrize("text", sorted(set(WORDS) - set(PHRASES)))
@pytest.mark.parametrize("device, dtype", [("cpu", torch.float64), ("meta", torch.bfloat16)])
def test_device_and_dtype(text: str, device: str, dtype: torch.dtype) -> None:
    module = fairseq_localattn.attention(text, DIM, HEADS, device=device, dtype=dtype)
    for name, tensor in {**dict(module.named_parameters()), **dict(module.named_buffers())}.items():
        assert (tensor.device.type, tensor.dtype) == (device, dtype), name
    if device == "cpu":
        x = torch.randn(LENGTH, BATCH, DIM, dtype=dtype)
        assert module(x, x, x)[0].dtype == dtype


def test_the_implementation_is_that_of_all_parts() -> None:
    module = fairseq_localattn.attention("2*local + 2*(alibi & shaw)", DIM, HEADS, implementation="sdpa")
    parts = [part for part in module.modules() if isinstance(part, LocalAttention)]
    assert len(parts) == 5 and {part.implementation for part in parts} == {"sdpa"}


def test_mistakes_are_said() -> None:
    module = fairseq_localattn.attention("san", DIM, HEADS)
    x, y = torch.randn(LENGTH, BATCH, DIM), torch.randn(LENGTH, BATCH, DIM)
    for given in ((x, y, y), (x[:5], x[:5], x[:5])):
        with pytest.raises(ValueError, match="are one tensor: pass one object three times, .* needs site='cross'"):
            module(*given)
    for name, others in (("key_padding_mask", ((1, 6), (3, 1), (6, 3))), ("attn_mask", ((12, 6, 6), (1, 6), (6, 7)))):
        mask = masks(name)[name]
        for wrong in (*map(torch.zeros, others), mask.byte(), mask.long()):
            with pytest.raises(ValueError, match=f"^{name}, .* must be boolean or floating, of shape .*, not torch"):
                module(x, x, x, **{name: wrong})
    with pytest.raises(RuntimeError, match="key_padding_mask has entries that are neither 0 nor at most -1e4"):
        module(x, x, x, key_padding_mask=torch.full((BATCH, LENGTH), -1.0))
    nested = torch.nested.nested_tensor([x[0], x[1]], layout=torch.jagged)
    with pytest.raises(ValueError, match="query is a nested tensor, .* set use_nested_tensor = False"):
        module(nested, nested, nested)
    with pytest.raises(ValueError, match="unknown site 'encode': choose from encoder, decoder, cross"):
        fairseq_localattn.attention("san", DIM, HEADS, site="encode")
    with pytest.raises(UsageError, match="there is no mechanism 'sam'; did you mean 'san'"):
        fairseq_localattn.attention("sam", DIM, HEADS)
    with pytest.raises(UsageError, match="phrases come with the batches of a translation model"):
        fairseq_localattn.attention("ngram", DIM, HEADS)
