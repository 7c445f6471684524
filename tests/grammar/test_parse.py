"""The grammar: what is read, how it is written again, and errors of one line that show the place."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_localattn.errors import UsageError
from fairseq_localattn.grammar.build import attention
from fairseq_localattn.grammar.parse import Attention, Mechanism, TextError, parse_stack
from fairseq_localattn.grammar.words import WORDS, word


def test_a_stack_is_read_whole() -> None:
    stack = parse_stack("1-3: dman > 4*csan(window=11) + 4*global > ffn; 4,6: san > ffn")
    first, second = stack.stretches
    assert first.ranges == ((1, 3),) and second.ranges == ((4, 4), (6, 6))
    assert [sublayer.kind for sublayer in first.sublayers] == ["attention", "attention", "ffn"]
    mixed = first.sublayers[1].content
    assert isinstance(mixed, Attention) and [group.heads for group in mixed.groups] == [4, 4]
    assert mixed.groups[0].mechanisms[0].options == {"window": 11}


@pytest.mark.parametrize(
    "text",
    [
        "all: san",
        "1-2,5: 2*(local(window=8) & alibi) + 6*global > cross > ffn",
        'all: ngram(heads="word:1,2:3", interaction=none)',
        "all: conv(kernel=3) > gauss(width=2.5, cut=true) > ffn > sman(boundary=none) > ffn",
    ],
)
def test_a_text_is_written_as_it_was(text: str) -> None:
    assert str(parse_stack(text)) == text


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "⟨here⟩", "a mechanism, such as local or csan.* is expected here"),
        ("csan(window=)", "⟨here⟩\\)", "a value of window is expected"),
        ("csan(window)", "⟨here⟩\\)", "'=' is expected after the option window"),
        ("csan(window=1, window=2)", "⟨here⟩window=2", "window is given twice"),
        ("1-: san", "⟨here⟩: san", "a layer's number is expected, not ':'"),
        ("3-1: san", "⟨here⟩3-1", "the lower one first"),
        ("0: san", "⟨here⟩0", "layers are numbers from 1"),
        ("1.5: san", "⟨here⟩1.5", "a layer's number is expected, not '1.5'"),
        ("3*san+local", "⟨here⟩local", "give a number of heads for every group"),
        ("0*san", "⟨here⟩0", "a group has 1 head or more"),
        ("san > ffn(x=1)", "⟨here⟩ffn", "ffn has no options"),
        ("ffn & san", "⟨here⟩ffn", "ffn is a sublayer of its own"),
        ("(san & local", "⟨here⟩'", "'\\)' is expected after the mechanisms"),
        ("san san", "⟨here⟩san", "'san' has no place here"),
        ("(" * 5000, "⟨here⟩", "brackets are nested too deeply"),
        ("san\x00", "⟨here⟩", "has no place here"),
        (f"local(window={'9' * 5000})", "⟨here⟩9", "window: a number has 30 characters or less, not 5,000"),
        ("san + " * 100_000, "⟨here⟩", "at most 10,000 are read"),
        ("1: san; 2: san" + " > ffn" * 100, "⟨here⟩2: san", "101 sublayers: a layer has 100 or less"),
    ],
)
def test_errors_show_the_place(text: str, place: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_stack(text)
    assert re.search(place, str(caught.value)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "site", "message"),
    [
        ("csam", "encoder", "there is no mechanism 'csam'; did you mean 'csan'\\?"),
        ("local(windo=3)", "encoder", "local has no option 'windo'; did you mean 'window'\\?"),
        ("2*san + 6*local(windo=3)", "encoder", r"'…san \+ 6\*local\(windo=⟨here⟩3\)', character 23: local has no"),
        ("local(window=x)", "encoder", "window must be a whole number, not 'x'"),
        ("local(window=2.5)", "encoder", "window must be a whole number, not 2.5"),
        ("local(window=99999999999)", "encoder", "window must be a whole number, not 99999999999"),
        ("dman(max_distance=2000000)", "encoder", "dynamic mask must be 1,000,000 or less"),
        ("gauss(cut=1)", "encoder", "cut must be true or false, not 1"),
        ("3*san + 4*san", "encoder", "the groups have 7 heads together, and the model has 8"),
        ("san + local + csan", "encoder", "3 groups do not share 8 heads equally"),
        ("csan & sman", "encoder", "csan computes its heads' attention as a whole: sman cannot act on the same heads"),
        ("alibi & block", "encoder", "block computes its heads' attention as a whole: alibi cannot"),
        ("rope & shaw", "encoder", "shaw reads the queries or keys, which rope turns by their positions"),
        ("gauss & rope", "decoder", "gauss reads the queries or keys, which rope turns"),
        ("rope & gauss(center=self, width=keys)", "encoder", "gauss reads the queries or keys"),
        ("local & local(window=2)", "encoder", "local stands twice on the same heads"),
        ("2*csan(window=2) + 6*san", "encoder", "the window must be odd"),
        ("ngram + san", "encoder", "phrases take all heads of an attention"),
        ("forward", "decoder", "forward is not defined in a decoder: it would see nothing but its own"),
        ("block", "decoder", "block is not defined in a decoder"),
        ("2*san + 6*aw(segment_size=2)", "decoder", "a decoder cannot point to a segment that is not finished"),
        ("local & alibi", "cross", "local is not defined in the attention to the encoder"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_line(text: str, site: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        attention(text, 32, 8, site=site)
    assert "⟨here⟩" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["shaw", "2*shaw + 6*alibi"])
def test_heads_that_do_not_divide_the_channels_have_a_place(text: str) -> None:
    with pytest.raises(TextError, match="8 attention heads do not divide an embedding of 36 channels"):
        attention(text, 36, 8)


def test_words_leave_out_options_that_have_their_default() -> None:
    assert str(word("csan", window=11, head_span=1)) == "csan(head_span=1)"
    assert str(word("tree", heads="word,1,2,3")) == "tree"
    assert str(word("ngram", heads="word,1,2,3")) == 'ngram(heads="word,1,2,3")'
    for name, known in WORDS.items():
        assert word(name, **{option: value.default for option, value in known.options.items()}) == Mechanism(name)


SIGNS = st.sampled_from(list("();:>+*&,= 0123456789-.\"'") + ["all", "ffn", "cross", "conv", "window", "true", *WORDS])


@settings(derandomize=True)
@given(st.lists(SIGNS, max_size=25).map("".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        stack = parse_stack(text)
    except UsageError as error:
        assert "\n" not in str(error)
    else:
        assert parse_stack(str(stack)) == stack
