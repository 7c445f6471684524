"""Texts as attention functions of transformers: against loops, and in models where transformers is installed."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fairseq_localattn
from fairseq_localattn.errors import UsageError
from fairseq_localattn.grammar.words import WORDS
from fairseq_localattn.mechanisms.alibi import slopes_of
from support.mechanisms.inputs import take_long_ways

HEADS, GROUPS, DIM, KEYS = 4, 2, 6, 9
# A text → whether head h of a causal or a bidirectional model shows query i the key j, and what is added to the score.
# The first word after padding is `first`.
TEXTS = {
    "san": lambda causal, h, i, j, first: (True, 0.0),
    "local(window=2)": lambda causal, h, i, j, first: (abs(i - j) <= 2, 0.0),
    "3*csan(window=3, head_span=1) + 1*global": lambda causal, h, i, j, first: (h == 3 or abs(i - j) <= 1, 0.0),
    "sman(boundary=3)": lambda causal, h, i, j, first: (abs(i - j) <= 3, 0.0),
    "sinks(window=2, sinks=2)": lambda causal, h, i, j, first: (
        (i - j < 2 if causal else abs(i - j) <= 1) or first <= j < first + 2,
        0.0,
    ),
    "2*(local(window=3) & alibi) + 2*backward": lambda causal, h, i, j, first: (
        abs(i - j) <= 3 if h < 2 else j <= i,
        -abs(i - j) * float(slopes_of(2)[h]) if h < 2 else 0.0,
    ),
    "gauss(center=self, width=3)": lambda causal, h, i, j, first: (True, -2 * ((i - j) / 3) ** 2),
}


class Module(nn.Module):
    """What an attention of transformers shows to its function."""

    def __init__(self, is_causal: bool | None = True, **config: object) -> None:
        super().__init__()
        self.config = SimpleNamespace(**config)
        if is_causal is not None:
            self.is_causal = is_causal


def slow(text: str, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor, scaling: float, causal: bool) -> Tensor:
    """Return B×T×H×D of queries that are the last of the keys, by loops; ``mask`` B×T×S is added, -inf hides."""
    out = torch.zeros(q.size(0), q.size(2), q.size(1), q.size(3), dtype=q.dtype)
    offset = k.size(2) - q.size(2)
    for b in range(q.size(0)):
        first = int(mask[b].isfinite().any(0).int().argmax())
        for h in range(q.size(1)):
            group = h // (q.size(1) // k.size(1))
            for row in range(q.size(2)):
                scores = {}
                for j in range(k.size(2)):
                    seen, bias = TEXTS[text](causal, h, row + offset, j, first)
                    if seen and mask[b, row, j].isfinite():
                        scores[j] = float(q[b, h, row] @ k[b, group, j]) * scaling + bias + float(mask[b, row, j])
                total = sum(map(math.exp, scores.values()))
                for j, score in scores.items():
                    out[b, row, h] += v[b, group, j] * math.exp(score) / total
    return out


def inputs(queries: int) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(queries)
    q = torch.randn(2, HEADS, queries, DIM, dtype=torch.float64)
    k, v = torch.randn(2, 2, HEADS // GROUPS, KEYS, DIM, dtype=torch.float64)
    return q, k, v


def seen_by(causal: bool, padding: str, queries: int) -> Tensor:
    """Return which keys a model shows, B×T×S."""
    seen = torch.ones(2, KEYS, KEYS, dtype=torch.bool)
    if causal:
        seen = seen.tril()
    if padding == "left":
        seen[1, :, :2] = False
    if padding == "right":
        seen[1, :, -2:] = False
    if padding == "packed":  # two sentences in one text
        second = torch.tensor([[4], [6]]) <= torch.arange(KEYS)
        seen &= second[:, :, None] == second[:, None]
    return seen[:, KEYS - queries :]


CALLS = [
    (*place, *mask)
    for place in ((True, KEYS), (True, 3), (True, 1), (False, KEYS))
    for mask in (("none", ""), ("row", "left"), ("bool", "left"), ("float", "right" if place[1] == KEYS else "left"))
]
CALLS += [(causal, KEYS, form, "packed") for causal in (True, False) for form in ("bool", "float")]


@pytest.mark.parametrize(("causal", "queries", "form", "padding"), CALLS)
@pytest.mark.parametrize("text", TEXTS)
def test_against_loops(
    text: str, causal: bool, queries: int, form: str, padding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With grouped keys or not, another scaling, queries at the end of a cache, and masks in every form."""
    function, (q, k, v) = fairseq_localattn.attention_function(text), inputs(queries)
    seen = seen_by(causal, padding, queries)
    added = torch.zeros(seen.shape, dtype=q.dtype)
    if padding == "packed":
        k, v = (x.repeat_interleave(GROUPS, 1) for x in (k, v))
        take_long_ways(monkeypatch)
    if padding == "packed" and form == "float":
        added.normal_()
        monkeypatch.setattr("fairseq_localattn.core.query_blocks.MEMORY", 1)
        monkeypatch.setattr("fairseq_localattn.core.query_blocks.LEAST", 2)
    masks: dict[str, Tensor | None] = {"none": None, "row": seen[:, None, -1:], "bool": seen[:, None]}
    masks["float"] = added.masked_fill(~seen, torch.finfo(q.dtype).min)[:, None]
    found, weights = function(Module(causal), q, k, v, masks[form], scaling=0.3)
    expected = slow(text, q, k, v, mask=added.masked_fill(~seen, -torch.inf), scaling=0.3, causal=causal)
    real = seen.any(-1)  # queries that are no padding
    torch.testing.assert_close(found[real], expected[real], rtol=1e-6, atol=1e-8)
    assert weights is None and found.is_contiguous()
    again, weights = function(Module(causal), q, k, v, masks[form], scaling=0.3, output_attentions=True)
    torch.testing.assert_close(again, found)
    values = v.repeat_interleave(HEADS // v.size(1), 1)
    assert weights is not None
    torch.testing.assert_close((weights @ values).transpose(1, 2), found)


def test_keys_of_a_cache_of_fixed_size_beyond_the_query_are_left_out() -> None:
    function, (q, k, v) = fairseq_localattn.attention_function("local(window=2) & alibi"), inputs(2)
    expected, _ = function(Module(), q, k, v, None)
    longer_k, longer_v = (nn.functional.pad(x, (0, 0, 0, 4), value=7.0) for x in (k, v))
    seen = nn.functional.pad(seen_by(True, "", 2), (0, 4))[:, None]
    torch.testing.assert_close(function(Module(), q, longer_k, longer_v, seen)[0], expected)
    short = torch.ones(2, 1, 1, KEYS, dtype=torch.bool)  # this module's own mask
    torch.testing.assert_close(function(Module(), q, longer_k, longer_v, short)[0], expected)


def test_dropout_and_gradients() -> None:
    function, tensors = fairseq_localattn.attention_function("local(window=2)"), inputs(KEYS)
    q, k, v = (each.requires_grad_() for each in tensors)
    torch.manual_seed(3)
    found = [function(Module(), q, k, torch.ones_like(v), None, dropout=rate)[0] for rate in (0.0, 0.5, 0.5)]
    torch.testing.assert_close(found[0], torch.ones_like(found[0]))
    assert not found[1].equal(found[2]) and 0.5 < float(found[1].detach().mean()) < 1.5
    function(Module(), q, k, v, None)[0][:, -1].square().sum().backward()
    assert k.grad is not None and set(k.grad.abs().sum((0, 1, 3)).nonzero().flatten().tolist()) == {6, 7, 8}


def test_activation_of_the_heads() -> None:
    q, k, v = inputs(KEYS)
    plain, changed = (
        fairseq_localattn.attention_function(text)(Module(), q, k, v, None)[0]
        for text in ("2*local + 2*global", "2*local(activation=relu) + 2*global")
    )
    assert changed[:, :, :2].equal(plain[:, :, :2].relu()) and changed[:, :, 2:].equal(plain[:, :, 2:])


REFUSED = {"dman", "mw", "aw", "ngram", "tree", "shaw", "gauss", "block", "rope", "t5"}


@pytest.mark.parametrize("word", WORDS)
def test_words_that_transformers_cannot_call(word: str) -> None:
    if word not in REFUSED:
        assert word in repr(fairseq_localattn.attention_function(word))
        return
    with pytest.raises(UsageError, match=rf"⟨here⟩{word} .*, character 3: transformers cannot call {word}: it \w+"):
        fairseq_localattn.attention_function(f"1*{word} + 2*global")


@pytest.mark.parametrize(
    ("module", "given", "message"),
    [
        (Module(None), {}, "Module does not say by is_causal"),
        (Module(is_encoder_decoder=True), {}, "attends to another as well"),
        (Module(False, is_decoder=True), {}, "attends to another as well"),
        (Module(False), {"queries": 3}, "attends to another as well"),
        (Module(), {"softcap": 50.0}, "asks for softcap as well"),
        (Module(), {"mask": torch.ones(2, HEADS, KEYS, KEYS)}, "not 2×4×9×9"),
        (Module(), {"text": "forward"}, "would see nothing but its own position"),
    ],
)
def test_models_that_it_does_not_serve(module: Module, given: dict, message: str) -> None:
    function = fairseq_localattn.attention_function(given.pop("text", "local"))
    q, k, v = inputs(given.pop("queries", KEYS))
    with pytest.raises(UsageError, match=message):
        function(module, q, k, v, given.pop("mask", None), **given)


SIZES = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SIZES |= {"vocab_size": 40, "pad_token_id": 0}


def model_of(name: str, attention: str, **sizes: object) -> Any:
    """Return a made model of transformers in evaluation; equal weights for equal sizes."""
    transformers = pytest.importorskip("transformers", reason="pip install 'fairseq_localattn[transformers]'")
    config = getattr(transformers, f"{name}Config")(**SIZES, **sizes, attn_implementation=attention)
    kind = getattr(transformers, {"Bert": "BertModel"}.get(name, f"{name}ForCausalLM"))
    torch.manual_seed(1)
    model = kind(config).eval()
    for parameter in model.parameters():  # the initial ones are too small for attention to matter
        nn.init.normal_(parameter, std=0.3)
    return model


def registered(text: str) -> str:
    """Register a text in transformers and return its name there."""
    pytest.importorskip("transformers", reason="pip install 'fairseq_localattn[transformers]'")
    name = f"localattn_{abs(hash(text))}"
    fairseq_localattn.attention_function(text).register(name)
    return name


def batch(padding: str) -> dict[str, Tensor]:
    """Return two texts, the second of them with padding."""
    torch.manual_seed(2)
    tokens, mask = torch.randint(3, 40, (2, 12)), torch.ones(2, 12, dtype=torch.long)
    if padding:
        mask[1, slice(3) if padding == "left" else slice(-3, None)] = 0
    return {"input_ids": tokens, **({"attention_mask": mask} if padding else {})}


CAUSAL = {"num_key_value_heads": 2, "max_position_embeddings": 64}


@pytest.mark.parametrize("padding", ["", "left", "right"])
@pytest.mark.parametrize("text", ["local(window=3)", "sinks(window=4, sinks=0)", "csan(window=7, head_span=1)"])
def test_llama_with_a_window_is_mistral(text: str, padding: str) -> None:
    """Outputs, gradients, generated words and their scores; transformers' sliding_window=4 shows four keys."""
    llama = model_of("Llama", registered(text), **CAUSAL)
    mistral = model_of("Mistral", "eager", sliding_window=4, **CAUSAL)
    given = batch(padding)
    real = given.get("attention_mask", torch.ones(2, 12)).bool()
    outputs = [model(**given).logits[real] for model in (llama, mistral)]
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-4, atol=1e-4)
    gradients = [
        torch.autograd.grad(out.square().mean(), model.model.embed_tokens.weight)
        for out, model in zip(outputs, (llama, mistral), strict=True)
    ]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
    if padding == "right":
        return
    how = {"max_new_tokens": 8, "do_sample": False, "output_scores": True, "return_dict_in_generate": True}
    static = {"cache_implementation": "static", "disable_compile": True}
    if not hasattr(llama.generation_config, "disable_compile"):
        del static["disable_compile"]
    for more, beam in (({}, {}), ({}, {"num_beams": 3}), (static, {})):
        ours, theirs = llama.generate(**given, **how, **more, **beam), mistral.generate(**given, **how, **beam)
        assert ours.sequences.equal(theirs.sequences), more
        torch.testing.assert_close(ours.scores, theirs.scores, rtol=1e-4, atol=1e-3)


def test_a_window_of_the_model_itself_intersects() -> None:
    """Mistral's own window stays, beside a wider one."""
    text = registered("local(window=8)")
    ours, theirs = (model_of("Mistral", name, sliding_window=4, **CAUSAL) for name in (text, "eager"))
    for given in (batch(""), batch("left")):
        real = given.get("attention_mask", torch.ones(2, 12)).bool()
        torch.testing.assert_close(ours(**given).logits[real], theirs(**given).logits[real], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("padding", ["", "right"])
def test_bert(padding: str) -> None:
    """Against transformers' own attention, whose scores are changed by the mask in words."""
    theirs = model_of("Bert", "eager")
    if not hasattr(theirs.encoder.layer[0].attention.self, "is_causal"):
        pytest.skip("BERT calls a function by its name from transformers 5.0 on")
    ours = model_of("Bert", registered("2*local(window=2) + 2*global"))
    given = batch(padding)
    real = given.get("attention_mask", torch.ones(2, 12)).bool()
    i, j = torch.arange(12)[:, None], torch.arange(12)
    hidden = torch.zeros(4, 12, 12, dtype=torch.bool)
    hidden[:2] = (i - j).abs() > 2
    closed = (hidden | ~real[:, None, None]).float() * -1e9
    expected = theirs(given["input_ids"], attention_mask=closed).last_hidden_state
    torch.testing.assert_close(ours(**given).last_hidden_state[real], expected[real], rtol=1e-4, atol=1e-4)


def test_weights_and_dropout_in_a_model() -> None:
    model = model_of("Llama", registered("local(window=3)"), attention_dropout=0.5, **CAUSAL)
    weights = model(**batch(""), output_attentions=True).attentions
    if weights[0] is not None:
        i, j = torch.arange(12)[:, None], torch.arange(12)
        assert (weights[1] > 0).equal(((i - j >= 0) & (i - j <= 3)).expand(2, 4, -1, -1))
    first = model(**batch("")).logits
    assert first.equal(model(**batch("")).logits) and not first.equal(model.train()(**batch("")).logits)


def test_a_function_without_its_mask_is_refused() -> None:
    """transformers passes no mask for a name that has none, and would attend to padding."""
    masks = pytest.importorskip("transformers.masking_utils", reason="transformers 4.53 or later")
    from transformers import AttentionInterface

    AttentionInterface.register("alone", fairseq_localattn.attention_function("local"))
    assert "alone" not in masks.ALL_MASK_ATTENTION_FUNCTIONS
    with pytest.raises(UsageError, match=r"no mask is registered for 'alone'.*\.register\('alone'\)"):
        model_of("Llama", "alone", **CAUSAL)(**batch("left"))
