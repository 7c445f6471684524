"""Multi-granularity attention against its reference: outputs, gradients, partitions, recurrences, tag loss."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.criterions.phrase_tags import tag_loss_of
from fairseq_localattn.mechanisms.phrasal import MultiGranularityAttention, parse_granularities, share_among_words
from fairseq_localattn.mechanisms.phrase_memory.compose import COMPOSITIONS, INTERACTIONS
from fairseq_localattn.mechanisms.phrase_memory.partition import ngram_lengths, partition_of
from support.mechanisms import phrase_references as reference
from support.mechanisms.inputs import labelled

LENGTHS = [7, 1, 5]  # lengths of the sentences
HEADS, CHANNELS = 4, 16
# Phrases of each sentence on two levels.
LEVELS = [[[4, 2, 1], [1, 3, 1, 1, 1]], [[1], [1]], [[5], [2, 2, 1]]]


def padding_of(lengths: list[int], left: bool, to: int = 9) -> Tensor:
    """Return the padding of sentences of these lengths, B×T, True = padding."""
    places = torch.arange(to)
    rows = [places < to - n if left else places >= n for n in lengths]
    return torch.stack(rows)


def level_lengths() -> Tensor:
    count = max(len(level) for sentence in LEVELS for level in sentence)
    return torch.tensor([[level + [0] * (count - len(level)) for level in sentence] for sentence in LEVELS])


def attention(composition: str, interaction: str, granularities: list[int], **more: Any) -> MultiGranularityAttention:
    torch.manual_seed(1)
    module = MultiGranularityAttention(
        CHANNELS,
        HEADS,
        granularities=granularities,
        composition=composition,
        interaction=interaction,
        self_attention=True,
        **more,
    ).double()
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):  # initialised to zero, which would hide a mistake
            torch.nn.init.normal_(parameter)
    return module


def sentences(left: bool) -> tuple[Tensor, Tensor, list[slice]]:
    """Return x T×B×C, padding B×T, and the slice of each sentence's words."""
    generator = torch.Generator().manual_seed(2)
    padding = padding_of(LENGTHS, left)
    x = torch.randn(padding.size(1), len(LENGTHS), CHANNELS, generator=generator, dtype=torch.float64)
    places = [slice(9 - n, 9) if left else slice(0, n) for n in LENGTHS]
    return x, padding, places


EVERY = list(itertools.product(COMPOSITIONS, INTERACTIONS))
# Channels of a master gate's value: two, and each its own (the default).
CHUNKED = [(*pair, 2) for pair in EVERY] + [("sans", "onlstm", 1)]


@pytest.mark.parametrize(("composition", "interaction", "chunk"), CHUNKED)
@pytest.mark.parametrize("left", [True, False])
def test_output_gradients_and_phrases_are_the_references(
    composition: str, interaction: str, chunk: int, left: bool
) -> None:
    """Two levels of phrases, the second one in two heads; every parameter's gradient, and the input's."""
    module = attention(composition, interaction, [0, 1, 1], chunk=chunk)
    x, padding, places = sentences(left)
    x.requires_grad_()
    with module.use_partition(partition_of(level_lengths(), padding)):
        output, _ = module(x, x, x, key_padding_mask=padding, need_weights=False)
        composed = module.composed
    assert composed is not None
    other = attention(composition, interaction, [0, 1, 1], chunk=chunk)
    parameters = dict(other.named_parameters())
    y = x.detach().clone().requires_grad_()
    got, wanted = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for b, place in enumerate(places):
        levels = [reference.of_lengths(LEVELS[b][k]) for k in (0, 1, 1)]
        theirs, phrases = reference.mgsa(
            y[place, b], [None, *levels], composition, interaction, chunk=chunk, p=parameters
        )
        torch.testing.assert_close(output[place, b], theirs, rtol=1e-10, atol=1e-12)
        for h, head in enumerate(phrases):
            torch.testing.assert_close(composed[b, h, : len(head)], torch.stack(head), rtol=1e-10, atol=1e-12)
        factors = torch.arange(1, 1 + theirs.numel(), dtype=torch.float64).view_as(theirs).cos()
        got, wanted = got + (output[place, b] * factors).sum(), wanted + (theirs * factors).sum()
    got.backward()
    wanted.backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-8, atol=1e-10)
    for name, parameter in module.named_parameters():
        if name == "k_proj.bias":  # the softmax does not depend on it
            continue
        expected = parameters[name].grad
        assert expected is not None and parameter.grad is not None, name
        assert expected.abs().max() > 0, name
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-8, atol=1e-10, msg=labelled(name))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_ngrams_by_an_lstm_are_the_references(left: bool, interaction: str) -> None:
    """Phrases of known length run in parallel, with the outputs and gradients of running in sequence."""
    x, padding, places = sentences(left)
    sizes = [2, 4]
    found = []
    for longest in (4, None):
        module = attention("lstm", interaction, [0, 1, 1])
        own = x.clone().requires_grad_()
        with module.use_partition(partition_of(ngram_lengths(padding, sizes), padding, longest=longest)):
            output = module(own, own, own, key_padding_mask=padding, need_weights=False)[0]
        real = ~padding.T[..., None]
        (output * real).square().sum().backward()
        found.append([output * real, own.grad, *(parameter.grad for parameter in module.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)
    parameters = dict(module.named_parameters())
    for b, place in enumerate(places):
        partitions = [reference.ngrams(LENGTHS[b], n) for n in (2, 4, 4)]
        theirs, _ = reference.mgsa(x[place, b], [None, *partitions], "lstm", interaction, chunk=1, p=parameters)
        torch.testing.assert_close(found[0][0][place, b], theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_is_on_the_weights_of_phrases_as_well(need_weights: bool) -> None:
    """With a rate near 1 hardly a value remains, of words or of phrases; in evaluation all do."""
    module = attention("max", "none", [0, 0, 0, 1], dropout=0.999)
    x, padding, _ = sentences(left=True)
    seen: list[Tensor] = []
    module.out_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    for mode in (True, False):
        module.train(mode)
        with module.use_partition(partition_of(level_lengths(), padding)):
            module(x, x, x, key_padding_mask=padding, need_weights=need_weights)
    trained, evaluated = (heads.view(*heads.shape[:2], HEADS, -1).ne(0).any(-1) for heads in seen)
    assert trained.float().mean() < 0.1 and evaluated.all()


def test_weights_at_the_start() -> None:
    """Matrices of heads differ, within Xavier's bound; recurrent ones within 1/√hidden; biases may be left out."""
    module = attention("sans", "onlstm", [0, 1, 1], bias=False)
    for name, weight in module.named_parameters():
        assert "_proj.bias" not in name
        if name.startswith(("composition", "interaction")):
            assert not torch.equal(weight[0], weight[1]), name
            recurrent = "recurrence" in name
            bound = 4**-0.5 if recurrent else (6 / (weight.size(1) + weight.size(2))) ** 0.5
            assert 0.8 * bound < weight.abs().max() <= bound or weight.dim() == 2, name
    x, padding, _ = sentences(left=True)
    with module.use_partition(partition_of(level_lengths(), padding)):
        assert module(x, x, x, key_padding_mask=padding)[0].isfinite().all()
    assert module.partition is None and module.composed is None, "kept beyond the call"


@pytest.mark.parametrize(
    ("granularities", "more", "message"),
    [
        ([1, 0], {}, "the granularities of the heads must ascend, not [1, 0]"),
        ([], {}, "0 heads of phrases among 4 heads"),
        ([0] * 5, {}, "5 heads of phrases among 4 heads"),
        ([0], {"composition": "mean"}, "unknown composition 'mean': choose from max, lstm, sans"),
        ([0], {"interaction": "gru"}, "unknown interaction 'gru': choose from none, lstm, onlstm"),
    ],
)
def test_modules_that_make_no_sense(granularities: list[int], more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="heads|unknown") as error:
        MultiGranularityAttention(CHANNELS, HEADS, granularities=granularities, **more)
    assert message in str(error.value)


@pytest.mark.parametrize("heads", [[0, 0, 0, 1], [1]])
def test_any_number_of_heads_of_words(heads: list[int]) -> None:
    """No word head, and all heads but one; weights belong to the fused output, and sum to one over the words."""
    module = attention("sans", "lstm", heads).eval()
    x, padding, places = sentences(left=True)
    parameters = dict(module.named_parameters())
    with module.use_partition(partition_of(level_lengths(), padding)):
        output, none = module(x, x, x, key_padding_mask=padding, need_weights=False)
        same, weights = module(x, x, x, key_padding_mask=padding, need_head_weights=True)
    assert none is None
    for b, place in enumerate(places):
        levels = [reference.of_lengths(LEVELS[b][k]) for k in heads]
        theirs, _ = reference.mgsa(
            x[place, b], [None] * (HEADS - len(heads)) + levels, "sans", "lstm", chunk=1, p=parameters
        )
        torch.testing.assert_close(output[place, b], theirs)
        torch.testing.assert_close(same[place, b], theirs)
        torch.testing.assert_close(weights[:, b, place, place].sum(-1), torch.ones(HEADS, LENGTHS[b]).double())


def test_a_phrases_weight_is_shared_by_its_words() -> None:
    padding = padding_of([3], left=True, to=4)
    partition = partition_of(torch.tensor([[[2, 1]]]), padding)
    weights = torch.tensor([[[[0.6, 0.4]]]])
    assert share_among_words(weights, partition).tolist() == [[[[0.0, *torch.tensor([0.3, 0.3, 0.4]).tolist()]]]]


# ---------------------------------------------------------------------------------------------- partitions


@pytest.mark.parametrize("left", [True, False])
def test_ngrams_begin_at_the_first_real_token(left: bool) -> None:
    padding = padding_of([7, 1, 0, 9], left)
    lengths = ngram_lengths(padding, [2, 3, 4])
    partition = partition_of(lengths, padding)
    for b, words in enumerate([7, 1, 0, 9]):
        start = 9 - words if left else 0
        for g, n in enumerate([2, 3, 4]):
            wanted = reference.ngrams(words, n)
            assert [length for length in lengths[b, g].tolist() if length] == [len(phrase) for phrase in wanted]
            assert (partition.hidden[b, g].logical_not().sum()) == len(wanted)
            index = partition.index[b, g].tolist()
            for p, phrase in enumerate(wanted):
                assert all(index[start + word] == p for word in phrase)
            assert [i == partition.count for i in index] == padding[b].tolist()


def test_the_partition_of_heads() -> None:
    """Two heads of one granularity are not two granularities."""
    padding = padding_of([3], left=False, to=3)
    both = partition_of(torch.tensor([[[3, 0], [1, 2]]]), padding)
    assert both.of([1, 1]).lengths.tolist() == [[[1, 2], [1, 2]]]
    assert both.of([1, 1]).index.tolist() == [[[0, 1, 1], [0, 1, 1]]]
    assert both.of([0, 1]).lengths.tolist() == both.lengths.tolist()


# ---------------------------------------------------------------------------------------------- tags, options


def test_the_tag_loss_is_eq_10() -> None:
    """The loss is summed over phrases and averaged over a level's heads, without phrases that have no tag."""
    torch.manual_seed(0)
    pad, levels = 1, (0, 1, 1)
    tags = torch.tensor([[[5, 4, pad], [4, 6, 5]], [[6, pad, pad], [pad, 4, pad]]])
    g = torch.randn(2, 3, 3, 8, dtype=torch.float64)
    W, b = torch.randn(7, 8, dtype=torch.float64), torch.randn(7, dtype=torch.float64)
    total = torch.zeros((), dtype=torch.float64)
    for s in range(2):
        for h, level in enumerate(levels):
            named = [None if tag == pad else int(tag) for tag in tags[s, level]]
            total = total + reference.tag_loss(list(g[s, h]), named, W, b) / levels.count(level)
    logits = g @ W.T + b
    got, logged = tag_loss_of([logits], tags, levels, pad)
    torch.testing.assert_close(got.double(), total, rtol=1e-5, atol=1e-5)
    both, _ = tag_loss_of([logits, logits], tags, levels, pad)
    torch.testing.assert_close(both, got)
    assert int(logged["phrases"]) == 7 and int(logged["tags"]) == 3 + 2 * 4
    perfect = torch.nn.functional.one_hot(tags[:, list(levels)], 7).double() * 50
    assert int(tag_loss_of([perfect], tags, levels, pad)[1]["tags_right"]) == 11


@pytest.mark.parametrize(
    ("mix", "wanted"),
    [
        ("word,2,3,4", ((2, 2, 3, 3, 4, 4), 2)),
        ("3:1,word:6,1:1", ((1, 3), 6)),
        ("2", ((2,) * 8, 0)),
    ],
)
def test_granularities_of_the_heads(mix: str, wanted: tuple[tuple[int, ...], int]) -> None:
    assert parse_granularities(mix, 8) == wanted


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        ("word,2,3", "the 3 granularities of 'word,2,3' do not divide 8 heads equally: give counts"),
        ("word:2,2:3", "the granularities 'word:2,2:3' have 5 heads, the model has 8"),
        ("word:2,2", "'2' in 'word:2,2' needs a count of heads"),
        ("word:4,phrase:4", "unknown granularity 'phrase'"),
        ("word,0", "unknown granularity '0'"),
        ("word:6,1025:2", "granularity 1025 in 'word:6,1025:2': a phrase has 1024 words or less"),
        ("word", "'word' has no granularity of phrases"),
    ],
)
def test_granularities_that_make_no_sense(mix: str, message: str) -> None:
    with pytest.raises(ValueError, match="granularit|count") as error:
        parse_granularities(mix, 8)
    assert message in str(error.value)


def test_a_call_needs_a_partition() -> None:
    x, padding, _ = sentences(left=True)
    with pytest.raises(RuntimeError, match="call the attention inside of `with attention.use_partition"):
        attention("max", "none", [0])(x, x, x, key_padding_mask=padding)
