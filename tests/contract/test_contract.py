"""Requirements on every architecture. A new variant joins by its ``_tiny`` one (support/models.py)."""

from __future__ import annotations

import copy

import pytest
import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_localattn.models.architectures import baseline_of
from fairseq_localattn.models.base import LocalModel
from support.device import assert_close, assert_same, least_effect, on_device, place
from support.mechanisms.inputs import labelled, take_long_ways
from support.models import (
    ARCHITECTURES,
    CASES,
    CLASSIFIER_CASES,
    CLASSIFIERS,
    EVERY,
    LANGUAGE_MODELS,
    LM_CASES,
    TINY,
    assert_gradients,
    batch,
    batch_for,
    build,
    case,
    decode_by_word,
    dictionary,
    encode,
    enlarge,
    load_saved,
    loss,
    pad,
    parse,
    placed_nowhere,
    sentences,
    shifted,
    with_phrases,
)

PARAMETER_FREE = ["mma", "csan", "rope", "alibi", "sinks"]
# Lengths that differ, one of them 1; longer than the windows of the cases, and than the blocks of `short`.
SOURCE, TARGET = [9, 4, 13, 1], [7, 11, 3, 5]
every_case = pytest.mark.parametrize("name", EVERY)
encoders = pytest.mark.parametrize("name", [*CASES, *CLASSIFIER_CASES])
decoders = pytest.mark.parametrize("name", [*CASES, *LM_CASES])
translation = pytest.mark.parametrize("name", CASES)


# Of 56 cases and more, the way of long sentences takes half a minute of the quick lane.
@pytest.fixture(params=["short", pytest.param("long", marks=pytest.mark.slow)])
def short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a test also on the path of long sentences, bands in blocks; blocks of three queries reach it here.

    What else a test varies goes with the path: pairs of both have no code of their own.
    """
    if request.param == "long":
        take_long_ways(monkeypatch)
    return request.param == "short"


def logits(model: torch.nn.Module, sample: dict) -> Tensor:
    with torch.no_grad():
        return model(**with_phrases(model, sample["net_input"]))[0]


# ---------------------------------------------------------------------------------------------- identity


# Options of fairseq's that reach into the layers and their attention, by the kind of model.
FAIRSEQ_OPTIONS = {
    "translation": [
        [],
        ["--encoder-normalize-before", "--decoder-normalize-before", "--layernorm-embedding"],
        ["--checkpoint-activations", "--encoder-learned-pos", "--decoder-learned-pos"],
        ["--no-cross-attention", "--cross-self-attention"],
    ],
    "lm": [[], ["--decoder-learned-pos", "--layernorm-embedding", "--checkpoint-activations"]],
    "classifier": [[], ["--encoder-normalize-before", "--encoder-learned-pos"]],
}
KINDS = {"translation": TINY, "lm": LM_CASES, "classifier": CLASSIFIER_CASES}
PLAIN = [(arch, flags) for kind, names in KINDS.items() for arch in names for flags in FAIRSEQ_OPTIONS[kind]]


def plain_flags(arch: str) -> list[str]:
    """Return the flags that give fairseq's Transformer the sizes and norms of an architecture."""
    args, flags = parse(arch), []
    for side in ("encoder", "decoder"):
        flags += [f"--{side}-ffn-embed-dim", str(getattr(args, f"{side}_ffn_embed_dim"))]
        flags += [f"--{side}-normalize-before"] if getattr(args, f"{side}_normalize_before") else []
    return flags + (["--no-token-positional-embeddings"] if args.no_token_positional_embeddings else [])


@pytest.mark.parametrize(("arch", "flags"), [each for each in PLAIN if each[0] in ARCH_MODEL_REGISTRY])
def test_placed_nowhere_it_is_fairseqs_model(arch: str, flags: list[str]) -> None:
    """Same state-dict keys, same weights from the same seed, same outputs and gradients."""
    plain = flags + (plain_flags(arch) if arch in TINY else [])
    share = arch not in LM_CASES
    ours = place(build(arch, [*plain, *placed_nowhere(arch)], share=share).eval())
    theirs = place(build(baseline_of(arch), plain, share=share).eval())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    if arch in LM_CASES:  # whose embeddings are made in another order
        ours.load_state_dict(theirs.state_dict())
    for key, weight in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[key], weight), key
    sample = batch_for(ours, SOURCE, TARGET, left=len(flags) != 3)
    ours_loss, theirs_loss = loss(ours, sample) / sample["ntokens"], loss(theirs, sample) / sample["ntokens"]
    assert_close(ours_loss, theirs_loss, rtol=0, atol=1e-6)
    ours_loss.backward()
    theirs_loss.backward()
    real = sample["target"].ne(dictionary().pad()) if arch not in CLASSIFIERS else slice(None)
    assert_close(logits(ours, sample)[real], logits(theirs, sample)[real], rtol=1e-6, atol=3e-6)
    for (key, got), wanted in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert_close(got.grad, wanted.grad, rtol=0, atol=1e-6, msg=labelled(key))


# ---------------------------------------------------------------------------------------------- padding, causality


@encoders
def test_padding_changes_nothing(name: str, short: bool) -> None:
    """A sentence (pair) alone, in a batch with longer ones, and with more padding than needed: the same logits."""
    model = case(name)
    sample = batch_for(model, SOURCE, TARGET)["net_input"]
    wide = {**sample, "src_tokens": pad(sentences(SOURCE), left=short, to=17)}
    pairs = "prev_output_tokens" in sample
    if pairs:
        wide["prev_output_tokens"] = shifted(pad(sentences(TARGET, seed=1), False, to=13))
    together = logits(model, {"net_input": wide})
    for row, length in enumerate(SOURCE):
        alone = {key: value[row : row + 1] if isinstance(value, Tensor) else value for key, value in sample.items()}
        alone["src_tokens"] = alone["src_tokens"][:, -length:]
        if pairs:
            alone["prev_output_tokens"] = alone["prev_output_tokens"][:, : TARGET[row]]
        real = slice(TARGET[row]) if pairs else slice(None)
        assert_close(together[row, real], logits(model, {"net_input": alone})[0], rtol=1e-4, atol=1e-5)


@decoders
def test_no_position_sees_the_future(name: str, short: bool) -> None:
    """Changing target word p changes nothing before it and something after it; with T == B = 4 as well as T = 6."""
    model, length = case(name), 4 if short else 6
    sample = batch_for(model, SOURCE, [length] * 4)
    before = logits(model, sample)
    for p in range(1, length):
        changed = copy.deepcopy(sample)
        words = changed["net_input"].get("prev_output_tokens", changed["net_input"]["src_tokens"])
        words[:, p] = torch.where(words[:, p] == 5, 6, 5)
        after = logits(model, changed)
        assert_close(after[:, :p], before[:, :p], rtol=0, atol=1e-6)
        assert (after[:, p:] - before[:, p:]).abs().amax(dim=(1, 2)).gt(least_effect(1e-3)).all(), (
            "the changed word had no effect"
        )


@encoders
def test_the_encoder_uses_every_word(name: str) -> None:
    model = case(name)
    sample = batch_for(model, [6, 6], [4, 4])
    before = logits(model, sample)
    for p in range(6):
        changed = copy.deepcopy(sample)
        changed["net_input"]["src_tokens"][:, p] = 7
        if not torch.equal(changed["net_input"]["src_tokens"], sample["net_input"]["src_tokens"]):
            assert (logits(model, changed) - before).abs().max() > least_effect(1e-4)


# ---------------------------------------------------------------------------------------------- decoding


@decoders
def test_incremental_equals_full(name: str, short: bool) -> None:
    """Word by word with fairseq's decoding state, and with the rows of the batch reordered on the way."""
    model = case(name)
    sample = batch_for(model, SOURCE, [9, 9, 9, 9], left=not short)
    assert_close(decode_by_word(model, sample), logits(model, sample), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@translation
def test_decoding_in_bf16_is_near_fp32(name: str) -> None:
    """Word by word with parameters of bfloat16, as ``--localattn-cpu-matmul bf16`` decodes."""
    model = case(name)
    sample = batch(SOURCE, [9, 9, 9, 9])
    exact = logits(model, sample).float()
    found = decode_by_word(copy.deepcopy(model).bfloat16(), sample)
    assert found.dtype == torch.bfloat16
    assert (found.float() - exact).norm() < 0.03 * exact.norm()


@translation
def test_beam_search_scores_are_the_models(name: str) -> None:
    """Beam 3 over a padded batch: every hypothesis's score is what a full pass gives it; the best comes first."""
    model = case(name)
    words = dictionary()
    sample = batch(SOURCE, TARGET)
    generator = SequenceGenerator([model], words, beam_size=3, max_len_b=12, normalize_scores=False)
    found = generator.generate([model], {**sample, "net_input": with_phrases(model, sample["net_input"])})
    for row, hypotheses in enumerate(found):
        assert len(hypotheses) == 3
        assert [h["score"] for h in hypotheses] == sorted((h["score"] for h in hypotheses), reverse=True)
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"][None]
            alone = {key: sample["net_input"][key][row : row + 1] for key in ("src_tokens", "src_lengths")}
            lprobs = logits(model, {"net_input": {**alone, "prev_output_tokens": shifted(tokens)}}).log_softmax(-1)
            rescored = lprobs[0].gather(1, tokens.T).sum()
            assert_close(hypothesis["score"], rescored, rtol=1e-4, atol=1e-4)


@translation
def test_a_beam_whose_sentences_finish(name: str) -> None:
    """Encoder keys are cached once a sentence; hypotheses change places, finished sentences leave the batch."""
    model, beam = case(name), 3
    sample = batch(SOURCE, [9] * 4)
    rows = on_device(torch.arange(4)).repeat_interleave(beam)  # three hypotheses a sentence, each with words of its own
    hypotheses = shifted(pad(sentences([9] * 12, seed=3), False))
    net_input = {key: value[rows] for key, value in sample["net_input"].items()}
    full = logits(model, {"net_input": {**net_input, "prev_output_tokens": hypotheses}})
    model.decoder.set_beam_size(beam)
    with torch.no_grad():
        # As in the generator: equal bit by bit, which rows of a batch of copies need not be.
        encoder_out = model.encoder.reorder_encoder_out(encode(model, sample["net_input"]), rows)
        state: dict = {}
        order = on_device(torch.arange(12))
        # From row to row: none; within the sentences; sentence 1 finished and gone, again with moves within the others.
        moves = {2: [2, 0, 1, 3, 3, 4, 8, 7, 6, 9, 11, 10], 4: [0, 2, 1, 6, 8, 7, 9, 9, 10]}
        for t in range(6):
            if t in moves:
                new = on_device(torch.tensor(moves[t]))
                order = order[new]
                model.decoder.reorder_incremental_state_scripting(state, new)
                encoder_out = model.encoder.reorder_encoder_out(encoder_out, new)
            step, _ = model.decoder(hypotheses[order, : t + 1], encoder_out=encoder_out, incremental_state=state)
            assert_close(step[:, 0], full[order, t], rtol=1e-4, atol=1e-5)
    cached = [b["prev_key"].size(0) for key, b in state.items() if "attn_state" in key]
    assert 3 in cached, "no cross-attention kept one copy a sentence"


# ---------------------------------------------------------------------------------------------- training, numerics


@pytest.mark.usefixtures("short")
@every_case
def test_every_parameter_gets_a_gradient(name: str) -> None:
    model = case(name, share=False).train()
    loss(model, batch_for(model, SOURCE, TARGET)).backward()
    assert_gradients(model)


@pytest.mark.slow
@pytest.mark.own_precision
@encoders
def test_half_precision_stays_finite(name: str, short: bool) -> None:
    """Forward and backward with much padding and a sentence that is all padding; the loss is near fp32's."""
    model, dtype = case(name).train(), torch.float16 if short else torch.bfloat16
    sample = batch_for(model, SOURCE, TARGET)
    wide = pad(sentences(SOURCE), left=short, to=40)
    wide[1] = dictionary().pad()
    sample["net_input"]["src_tokens"] = wide
    model.eval()
    wanted = loss(model, sample)
    half = copy.deepcopy(model).to(dtype)
    got = loss(half, sample)
    assert_close(got, wanted.detach(), rtol=0.03, atol=0.1)
    got.backward()
    for key, parameter in half.named_parameters():
        assert parameter.grad.isfinite().all(), key


@pytest.mark.own_precision
@translation
def test_large_inputs_stay_finite_in_fp16(name: str, short: bool) -> None:
    """Inputs of every attention times a factor, with padding and an empty sentence; the last layer gives weights.

    Scores go far beyond the range of fp16. fairseq's attention is finite there as long as it gives no weights.
    """
    model, factor = case(name).half(), 10_000 if short else 200
    enlarge(model, factor)
    sample = batch(SOURCE, TARGET)
    sample["net_input"]["src_tokens"][0] = dictionary().pad()
    with torch.no_grad():
        out, extra = model(**with_phrases(model, sample["net_input"]))
    assert out.isfinite().all()
    assert extra["attn"][0] is None or extra["attn"][0].isfinite().all()


@every_case
def test_state_dict_round_trip(name: str) -> None:
    model, other = case(name, seed=1), case(name, seed=2)
    sample = batch_for(model, SOURCE, TARGET)
    assert not torch.allclose(logits(model, sample), logits(other, sample))
    load_saved(other, model)
    assert_same(logits(model, sample), logits(other, sample))
    assert_same(logits(copy.deepcopy(model), sample), logits(model, sample))


# ---------------------------------------------------------------------------------------------- sizes


@pytest.mark.slow
@pytest.mark.own_precision
@pytest.mark.parametrize("given", {ARCH_MODEL_REGISTRY[arch]: (arch, flags) for arch, flags in EVERY.values()}.values())
def test_fairseqs_configuration_holds_the_options(given: tuple[str, list[str]]) -> None:
    """fairseq-train turns its arguments into a configuration before it builds a model; the last case of each model."""
    convert_namespace_to_omegaconf(parse(*given))


@pytest.mark.own_precision
def test_every_model_is_in_this_suite() -> None:
    """Every variant has a ``_tiny`` architecture and a plain counterpart."""
    models = {name: model for name, model in ARCH_MODEL_REGISTRY.items() if issubclass(model, LocalModel)}
    assert set(models) == {*ARCHITECTURES, *LANGUAGE_MODELS, *CLASSIFIERS}
    assert {models[name] for name in (*TINY, *LM_CASES, *CLASSIFIER_CASES) if name in models} == set(models.values())
    for name in models:
        assert baseline_of(name) in ARCH_MODEL_REGISTRY


@pytest.mark.slow
@pytest.mark.own_precision
@pytest.mark.parametrize("arch", [*ARCHITECTURES, *LANGUAGE_MODELS, *CLASSIFIERS])
def test_sizes_are_those_of_the_plain_model(arch: str) -> None:
    """Built at full size: the stacks that the architecture states, and the plain model's number of parameters."""
    with torch.device("meta"):
        model, plain = build(arch), build(baseline_of(arch))
    args = parse(arch)
    for side in ("encoder", "decoder"):
        for stack in (getattr(each, side) for each in (model, plain) if hasattr(each, side)):
            assert len(stack.layers) == getattr(args, f"{side}_layers")
            assert stack.layers[0].self_attn.num_heads == getattr(args, f"{side}_attention_heads")
        if hasattr(model, side):
            width, channels = (getattr(args, f"{side}_{what}_dim") for what in ("ffn_embed", "embed"))
            assert getattr(model, side).layers[0].fc1.weight.shape == (width, channels)
    assert arch not in LANGUAGE_MODELS or model.decoder.layers[0].normalize_before
    assert arch not in CLASSIFIERS or arch.endswith("_tiny") or (len(model.encoder.layers), width) == (2, 512)
    if ARCH_MODEL_REGISTRY[arch].prefix in PARAMETER_FREE:
        # Weights of the plain model load. Without positions the buffer of the sinusoids' version is not there.
        states = [each.state_dict() for each in (model, plain)]
        shapes, wanted = ({key: x.shape for key, x in state.items() if "version" not in key} for state in states)
        assert shapes == wanted and (args.no_token_positional_embeddings or states[0].keys() == states[1].keys())
