"""Multi-granularity attention against its reference: outputs, gradients, partitions, recurrences, tag loss."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from fairseq_localattn.criterions.phrase_tags import tag_loss_of
from fairseq_localattn.mechanisms.phrasal import MultiGranularityAttention, parse_granularities, share_among_words
from fairseq_localattn.mechanisms.phrase_memory.compose import COMPOSITIONS, INTERACTIONS
from fairseq_localattn.mechanisms.phrase_memory.partition import Partition, ngram_lengths, partition_of
from support.mechanisms import phrase_references as reference
from support.mechanisms.inputs import DIM, HEADS, assert_same, outcome, random_case, run

LENGTHS = [7, 1, 5]  # lengths of the sentences
# Phrases of each sentence on two levels.
LEVELS = [[[4, 2, 1], [1, 3, 1, 1, 1]], [[1], [1]], [[5], [2, 2, 1]]]
TREES = torch.tensor([[level + [0] * (5 - len(level)) for level in sentence] for sentence in LEVELS])


def attention(composition: str, interaction: str, granularities: list[int], **more: Any) -> MultiGranularityAttention:
    torch.manual_seed(1)
    options = {"granularities": granularities, "composition": composition, "interaction": interaction, **more}
    module = MultiGranularityAttention(DIM, HEADS, self_attention=True, **options).double()
    for name, parameter in module.named_parameters():
        if name.endswith("bias"):  # initialised to zero, which would hide a mistake
            torch.nn.init.normal_(parameter)
    return module


def check(options: dict[str, Any], left: bool, partition: Partition, phrases: list[list[Any]]) -> None:
    """Compare output, weights, composed phrases and every gradient; ``phrases``: of each sentence, by head."""
    module, (x, padding) = attention(**options), random_case(LENGTHS, left)
    stated = {name: options[name] for name in ("composition", "interaction", "chunk")}
    real, composed = ~padding, list[list[list[Tensor]]]()

    def expected(x: Tensor, _: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        for b, of_heads in enumerate(phrases):
            words: list[Any] = [None] * (HEADS - len(of_heads))
            given = x[real[b], b], [*words, *of_heads]
            out[real[b], b], com = reference.mgsa(*given, p=dict(module.named_parameters()), **stated)
            composed.append(com)
        return out

    def forward(x: Tensor, _: Tensor) -> Tensor:
        return run(module, x, x, padding)[0] * real.T[..., None]

    wanted = outcome(module, x, x, expected)
    with module.use_partition(partition):
        got = outcome(module, x, x, forward)
        for b, com in enumerate(composed):
            assert len(com) == len(phrases[b])
            for h, head in enumerate(com):
                torch.testing.assert_close(module.composed[b, h, : len(head)], torch.stack(head))  # type: ignore[index]
        with torch.no_grad():
            explicit, weights = run(module, x, x, padding, need_head_weights=True)
    assert module.partition is None and module.composed is None, "kept beyond the call"
    assert_same(got, wanted)
    assert all(value.abs().max() > 0 for name, value in wanted.items() if name != "k_proj.bias")
    torch.testing.assert_close(explicit * real.T[..., None], got["output"])
    torch.testing.assert_close(weights.sum(-1)[:, real], torch.ones(HEADS, sum(LENGTHS)).double())
    assert (weights.masked_select(padding[None, :, None]) == 0).all()


EVERY = [
    {"composition": composition, "interaction": interaction, "granularities": [0, 1, 1], "chunk": 2}
    for composition, interaction in itertools.product(COMPOSITIONS, INTERACTIONS)
]
# Each channel with a master gate's value of its own (the default); no word head, and all heads but one.
EVERY += [EVERY[-1] | {"chunk": 1}, EVERY[-2] | {"granularities": [0, 0, 0, 1]}, EVERY[-2] | {"granularities": [1]}]


@pytest.mark.parametrize("options", EVERY, ids=str)
@pytest.mark.parametrize("left", [True, False])
def test_equals_equations(options: dict[str, Any], left: bool) -> None:
    _, padding = random_case(LENGTHS, left)
    levels = options["granularities"]
    phrases = [[reference.of_lengths(sentence[k]) for k in levels] for sentence in LEVELS]
    check(options, left, partition_of(TREES, padding), phrases)


@pytest.mark.parametrize("longest", [4, None])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("interaction", INTERACTIONS)
def test_ngrams_equal_equations(left: bool, interaction: str, longest: int | None) -> None:
    """Phrases of known length run in parallel, others in sequence."""
    _, padding = random_case(LENGTHS, left)
    partition = partition_of(ngram_lengths(padding, [2, 4]), padding, longest=longest)
    phrases = [[reference.ngrams(words, n) for n in (2, 4, 4)] for words in LENGTHS]
    check(EVERY[0] | {"composition": "lstm", "interaction": interaction}, left, partition, phrases)


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_is_on_the_weights_of_phrases_as_well(need_weights: bool) -> None:
    """With a rate near 1 hardly a value remains, of words or of phrases; in evaluation all do."""
    module = attention("max", "none", [0, 0, 0, 1], dropout=0.999)
    x, padding = random_case(LENGTHS, left=True)
    seen: list[Tensor] = []
    module.out_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    for mode in (True, False):
        module.train(mode)
        with module.use_partition(partition_of(TREES, padding)):
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


@pytest.mark.parametrize(
    ("granularities", "more", "message"),
    [
        ([1, 0], {}, "must ascend, not [1, 0]"),
        ([], {}, "0 heads of phrases among 4 heads"),
        ([0] * 5, {}, "5 heads of phrases among 4 heads"),
        ([0], {"composition": "mean"}, "unknown composition 'mean': choose from max, lstm, sans"),
        ([0], {"interaction": "gru"}, "unknown interaction 'gru': choose from none, lstm, onlstm"),
    ],
)
def test_modules_that_make_no_sense(granularities: list[int], more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        MultiGranularityAttention(DIM, HEADS, granularities=granularities, **more)


def test_a_phrases_weight_is_shared_by_its_words() -> None:
    padding = torch.tensor([[True, False, False, False]])
    partition = partition_of(torch.tensor([[[2, 1]]]), padding)
    weights = torch.tensor([[[[0.6, 0.4]]]])
    assert share_among_words(weights, partition).tolist() == [[[[0.0, *torch.tensor([0.3, 0.3, 0.4]).tolist()]]]]


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
    ("mix", "wanted"), [("word,2,3,4", ((2, 2, 3, 3, 4, 4), 2)), ("3:1,word:6,1:1", ((1, 3), 6)), ("2", ((2,) * 8, 0))]
)
def test_granularities_of_the_heads(mix: str, wanted: tuple[tuple[int, ...], int]) -> None:
    assert parse_granularities(mix, 8) == wanted


@pytest.mark.parametrize(
    ("mix", "message"),
    [
        ("word,2,3", "3 granularities of 'word,2,3' do not divide 8 heads"),
        ("word:2,2:3", "have 5 heads, the model has 8"),
        ("word:2,2", "'2' in 'word:2,2' needs a count of heads"),
        ("word:²,2:2", "needs a count of heads"),
        ("word,²", "unknown granularity '²'"),
        ("word:4,phrase:4", "unknown granularity 'phrase'"),
        ("word,0", "unknown granularity '0'"),
        ("word:6,1025:2", "a phrase has 1024 words or less"),
        ("word", "no granularity of phrases"),
    ],
)
def test_granularities_that_make_no_sense(mix: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_granularities(mix, 8)


def test_a_call_needs_a_partition() -> None:
    x, padding = random_case(LENGTHS, left=True)
    with pytest.raises(RuntimeError, match="call the attention inside of `with attention.use_partition"):
        attention("max", "none", [0])(x, x, x, key_padding_mask=padding)
