"""The search without fairseq has the hypotheses, scores and scores of words of fairseq's."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fairseq_localattn.errors import UsageError
from fairseq_localattn.inference import Options, search
from fairseq_localattn.inference import model as inference_model
from fairseq_localattn.inference.search import _best
from support.inference.models import assert_equal, batch_of, fairseqs, random_model, without_fairseq
from support.models import CASES, TINY, build, parse

LENGTHS = [3 + 5 * n % 17 for n in range(20)]
QUICK = (*TINY, "mma-no-positions", "man-after-ffn", "hybrid-sublayers", "hybrid-trees")
OPTIONS: list[dict[str, Any]] = [{}, {"beam": 1}, {"beam": 21, "lenpen": 0.6}, {"lenpen": 2.0, "min_len": 4}]
OPTIONS += [{"unkpen": 3.0, "unnormalized": True}, {"max_len_b": 3}, {"min_len": 3, "max_len_b": 3}]


def both(name: str, prefix: torch.Tensor | None = None, **options: Any) -> tuple[Any, Any]:
    model, args = random_model(name)
    net_input = batch_of(model, LENGTHS)
    ours = Options(**{"nbest": options.get("beam", 5), **options})
    more = {"prefix": prefix, "phrases": net_input.get("src_phrases")}
    found = search(without_fairseq(model, args), net_input["src_tokens"], ours, **more)
    names = {"beam": "beam_size", "lenpen": "len_penalty", "unkpen": "unk_penalty"}
    theirs = {names.get(key, key): value for key, value in options.items() if key != "unnormalized"}
    theirs["normalize_scores"] = not options.get("unnormalized", False)
    return fairseqs(model, net_input, prefix=prefix, beam_size=theirs.pop("beam_size", 5), **theirs), found


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in CASES if name not in QUICK)]
)
def test_every_model_has_fairseqs_hypotheses(name: str) -> None:
    assert_equal(*both(name, max_len_a=1.2, max_len_b=5, temperature=2.0))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_has_fairseqs_hypotheses(options: dict[str, Any]) -> None:
    theirs, found = both("transformer_mma_tiny", temperature=3.0, **{"max_len_b": 30, **options})
    assert_equal(theirs, found)
    if not options:  # what these tests rest on: most sentences leave the batch before its last step
        longest = [max(len(each.tokens) for each in best) for best in found]
        assert len(set(longest)) > 3 and min(longest) < 20


@pytest.mark.parametrize("name", ["transformer_mma_tiny", "transformer_relpos_tiny", "transformer_diffwin_tiny"])
def test_keys_in_bf16_change_scores_by_little(name: str) -> None:
    model, args = random_model(name)
    tokens, ours = batch_of(model, LENGTHS)["src_tokens"], without_fairseq(model, args)
    found = []
    for ours.decoder.kept_in in (None, torch.bfloat16):
        found.append([best[0].score for best in search(ours, tokens, Options(max_len_b=30, temperature=3.0))])
    assert found[0] != found[1] and found[1] == pytest.approx(found[0], abs=0.05)  # one may be another hypothesis


def _other_weights(model: Any) -> Any:
    model.load_state_dict({name: 0.7 * tensor for name, tensor in model.state_dict().items()})
    return model


def _hooked(model: Any) -> Any:
    model.decoder.output_projection.register_forward_hook(lambda module, inputs, logits: -logits)
    return model


@pytest.mark.parametrize("change", [_other_weights, _hooked, lambda model: model.bfloat16()])
def test_a_changed_model_keeps_nothing_of_earlier_searches(change: Callable[[Any], Any]) -> None:
    model, args = random_model("transformer_man_tiny")
    tokens, options = batch_of(model, [4, 9, 6])["src_tokens"], Options(max_len_b=8)
    used, fresh = without_fairseq(model, args), change(without_fairseq(model, args))

    def found(of: Any) -> list[list[tuple[list[int], Any]]]:
        best = search(of, tokens, options)
        # On AMD's CPUs the last digits depend on where tensors lie.
        return [[(each.tokens, pytest.approx(each.score, abs=1e-4)) for each in hypotheses] for hypotheses in best]

    before, after = found(used), found(fresh)
    for each in (copy.deepcopy(used), used):
        assert found(each) == before
        assert found(change(each)) == after != before


def test_phrases_of_batches_in_two_threads_are_not_exchanged() -> None:
    encoder = without_fairseq(*random_model("transformer_mgsa_ngram_tiny")).encoder
    first, second = (torch.randint(4, 44, (2, length)) for length in (9, 6))
    found: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        alone = encoder(first).x, encoder(second).x
        other = threading.Thread(target=lambda: found.update(second=encoder(second).x.detach()))

        def meanwhile(*_: object) -> None:
            if other.ident is None:
                other.start()
                other.join(timeout=0.3)

        encoder.layers[0].register_forward_pre_hook(meanwhile)
        found["first"] = encoder(first).x
        other.join()
    torch.testing.assert_close((found["first"], found["second"]), alone)


def test_prefixes_are_fairseqs() -> None:
    prefix = torch.randint(4, 44, (len(LENGTHS), 3), generator=torch.Generator().manual_seed(0))
    prefix[::3, 1:] = 1
    prefix[1::3] = 1
    theirs, ours = both("transformer_man_tiny", prefix=prefix, temperature=2.0, max_len_b=15)
    assert_equal(theirs, ours)
    assert [best[0].tokens[:3] for best in ours[2::3]] == prefix[2::3].tolist()


def test_a_source_beyond_learned_positions_is_refused() -> None:
    flags = "--encoder-learned-pos --max-source-positions 9 --share-all-embeddings".split()
    ours = without_fairseq(build("transformer_mma_tiny", flags), parse("transformer_mma_tiny", flags))
    assert search(ours, torch.full((1, 9), 5), Options(max_len_b=2))
    with pytest.raises(UsageError, match="^a source has 10 tokens, and the model has learned 9 positions$"):
        search(ours, torch.full((1, 10), 5), Options())


def test_threads_keep_tables_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread replaces what is kept, between its check and its use: segments of keys, the table of sinusoids."""
    model, args = random_model("diffwin-all-layers")
    ours = without_fairseq(model, args)
    one, other = (batch_of(model, lengths)["src_tokens"] for lengths in ([9, 3], [9, 7]))
    expected = search(ours, one, Options(max_len_b=5))

    def lost(stack: torch.nn.Module, name: str, value: Any) -> None:
        torch.nn.Module.__setattr__(stack, name, value)
        if name == "sinusoids":
            torch.nn.Module.__setattr__(stack, name, value[:3])

    monkeypatch.setattr(inference_model._Stack, "__setattr__", lost, raising=False)
    for stack in (ours.encoder, ours.decoder):
        stack.sinusoids = inference_model.sinusoids(4, args.encoder_embed_dim)
    assert search(ours, one, Options(max_len_b=5)) == expected

    modules: list[Any] = [each for each in ours.modules() if getattr(each, "segment_size", 1) > 1]
    window, equal = modules[0], torch.equal
    frames = [SimpleNamespace(key_padding_mask=tokens.eq(1), key_length=9) for tokens in (one, other)]

    def equal_and_lost(a: torch.Tensor, b: torch.Tensor) -> bool:
        found = equal(a, b)
        window._kept = of_other
        return found

    with torch.inference_mode():
        first, second = (window._segments(frame, one.device).first.clone() for frame in frames)
        of_other = window._kept
        window._segments(frames[0], one.device)
        monkeypatch.setattr(torch, "equal", equal_and_lost)
        found = window._segments(frames[0], one.device).first
    assert found.tolist() == first.tolist() != second.tolist()


def test_samples_follow_the_probabilities() -> None:
    model, args = random_model("transformer_mma_tiny")
    ours, tokens = without_fairseq(model, args), batch_of(model, [5])["src_tokens"]
    shared: dict[str, Any] = {"sampling": True, "beam": 20, "nbest": 20, "max_len_b": 4, "temperature": 2.0}
    torch.manual_seed(1)
    firsts = torch.zeros(44)
    for _ in range(40):
        for each in search(ours, tokens, Options(**shared))[0]:
            firsts[each.tokens[0]] += 1
            assert len(each.tokens) == len(each.token_scores) <= 5
    with torch.no_grad():
        logits = ours.decoder(torch.tensor([2]), 0, ours.encoder(tokens), {})[0] / 2
    logits[[1, 2]] = -torch.inf
    expected = logits.softmax(-1)
    assert (firsts / firsts.sum() - expected).abs().max() < 0.06
    most = logits.topk(3).indices.tolist()
    for limit in ({"sampling_topk": 3}, {"sampling_topp": float(expected[most[:2]].sum()) + 1e-4}):
        drawn = {each.tokens[0] for each in search(ours, tokens, Options(**shared, **limit))[0]}
        assert drawn <= set(most)
    greedy = search(ours, tokens, Options(beam=1, max_len_b=4, temperature=2.0))[0][0].tokens
    for alone in ({"sampling_topk": 1}, {"sampling_topp": 1e-300}):
        assert {tuple(each.tokens) for each in search(ours, tokens, Options(**shared, **alone))[0]} == {tuple(greedy)}


@pytest.mark.parametrize("words", [40, 64 * 5, 64 * 5 + 7])
@pytest.mark.parametrize("places", [1, 5])
def test_the_best_words_are_found_by_chunks(words: int, places: int) -> None:
    generator = torch.Generator().manual_seed(words)
    logits = torch.randn(3 * places, words, generator=generator)
    base = torch.randn(3, places, generator=generator)
    best, word, place = _best(logits, base, 10)
    flat = (logits.view(places, 3, words).transpose(0, 1) + base[..., None]).flatten(1)
    assert torch.equal(best, flat.topk(10).values)
    assert torch.equal(flat.gather(1, place * words + word), best)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "--beam 0"),
        ({"nbest": 6}, "--nbest 6"),
        ({"temperature": 1e-300}, "--temperature 1e-300: give 1e-09 or more"),
        ({"beam": 22}, "less than half"),
        ({"min_len": 9, "max_len_b": 8}, "--min-len 9"),
        ({"sampling_topk": 2, "sampling_topp": 0.5}, "choose one"),
        ({"sampling_topk": 2}, "give --sampling as well"),
        ({"max_len_a": float("inf")}, "--max-len-a inf: give 1,000,000,000 or less"),
        ({"max_len_b": 10**400}, "give 1,000,000,000 or less"),
        ({"lenpen": 1e6}, "--lenpen 1000000.0: give 10 or less"),
        ({"lenpen": float("nan")}, "--lenpen nan: give -10 or more"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    model, args = random_model("transformer_mma_tiny")
    with pytest.raises(UsageError, match=message):
        search(without_fairseq(model, args), torch.tensor([[5, 2]]), Options(**options))
