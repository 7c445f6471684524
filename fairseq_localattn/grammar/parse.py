"""Reads an attention text, which describes the layers of an encoder or decoder. Depends on the standard library alone.

    stack      = stretch (";" stretch)*
    stretch    = [layers ":"] sublayer (">" sublayer)*
    layers     = "all" | range ("," range)*          numbers from 1, as in 1-3,6
    sublayer   = "ffn" | "cross" | "conv" [options] | attention
    attention  = group ("+" group)*
    group      = [number "*"] joint                   heads; without numbers the groups have equal shares
    joint      = mechanism ("&" mechanism)*           mechanisms on the same heads
    mechanism  = "(" joint ")" | word [options]
    options    = "(" name "=" value ("," name "=" value)* ")"
    value      = number | word | "text in quotes"

A text is a tree of the dataclasses below; ``str()`` of them gives it back in its shortest form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import TypeVar

from ..errors import UsageError
from .placement import written

Value = int | float | bool | str | None
T = TypeVar("T")

TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]))|(?P<word>[A-Za-z]\w*)|(?P<quoted>\"[^\"]*\"|'[^']*')"
    r"|(?P<sign>[-;:>+*&(),=])|(?P<end>$)|(?P<other>.))",
    re.ASCII | re.DOTALL,
)
SUBLAYERS = ("ffn", "cross", "conv")
# Longer texts, and layers with more sublayers, are certainly mistakes.
LONGEST = 10_000  # characters
LONGEST_NUMBER = 30
HIGHEST_LAYER = 10**9
MOST_SUBLAYERS = 100


class TextError(UsageError):
    """A text that describes no attention; the message shows the place."""

    def __init__(self, text: str, at: int, message: str) -> None:
        begin = max(0, at - 20)
        shown = f"{'…' if begin else ''}{text[begin:at]}⟨here⟩{text[at : at + 20]}{'…' if at + 20 < len(text) else ''}"
        super().__init__(f"{shown!r}, character {at + 1}: {message}")
        #: The message without the place, for a text that no user wrote.
        self.reason = message


@dataclass(frozen=True)
class Mechanism:
    """A mechanism's word, its options, and its place in the text."""

    word: str
    options: Mapping[str, Value] = field(default_factory=dict)
    at: int = field(default=0, compare=False)
    option_at: Mapping[str, int] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        given = ", ".join(f"{name}={_written(value)}" for name, value in self.options.items())
        return f"{self.word}({given})" if given else self.word


@dataclass(frozen=True)
class Group:
    """Heads with the same mechanisms; ``heads`` is None for an equal share."""

    mechanisms: tuple[Mechanism, ...]
    heads: int | None = None
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        joint = " & ".join(map(str, self.mechanisms))
        if self.heads is None:
            return joint
        return f"{self.heads}*({joint})" if len(self.mechanisms) > 1 else f"{self.heads}*{joint}"


@dataclass(frozen=True)
class Attention:
    """The groups of heads of one attention."""

    groups: tuple[Group, ...]
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return " + ".join(map(str, self.groups))


@dataclass(frozen=True)
class Sublayer:
    """One sublayer: an attention, or ``ffn``, ``cross`` or ``conv`` as a mechanism without heads."""

    content: Attention | Mechanism

    @property
    def kind(self) -> str:
        """``attention``, ``ffn``, ``cross`` or ``conv``."""
        return "attention" if isinstance(self.content, Attention) else self.content.word

    def __str__(self) -> str:
        return str(self.content)


@dataclass(frozen=True)
class Stretch:
    """Layers with the same sublayers: ranges of numbers from 1, both ends included; None for all layers."""

    sublayers: tuple[Sublayer, ...]
    ranges: tuple[tuple[int, int], ...] | None = None
    at: int = field(default=0, compare=False)

    def __str__(self) -> str:
        layers = written(self.ranges) if self.ranges else "all"
        return f"{layers}: {' > '.join(map(str, self.sublayers))}"


@dataclass(frozen=True)
class Stack:
    """The stretches of a stack."""

    stretches: tuple[Stretch, ...]
    text: str = field(default="", compare=False)

    def __str__(self) -> str:
        return "; ".join(map(str, self.stretches))


def parse_stack(text: str) -> Stack:
    """Return the stretches of a text. Raises TextError."""
    reader = _Reader(text)
    stretches = reader.separated(";", reader.stretch)
    reader.end()
    before: list[tuple[int, int]] = []
    for stretch in stretches:
        ranges = stretch.ranges or ((1, HIGHEST_LAYER),)
        for (first, last), (low, high) in product(ranges, before):
            if (twice := max(first, low)) <= min(last, high):
                raise TextError(text, stretch.at, f"layer {twice} is described twice")
        before += ranges
    return Stack(stretches, text)


def parse_attention(text: str) -> Attention:
    """Return the attention of a text without layers and sublayers. Raises TextError."""
    reader = _Reader(text)
    attention = reader.attention()
    reader.end()
    return attention


def _written(value: Value) -> str:
    """Return a value as it is written in a text."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z]\w*", value, re.ASCII):
        return f"'{value}'" if '"' in value else f'"{value}"'
    return str(value)


class _Reader:
    """Recursive descent over the tokens of a text."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise TextError(text, 0, f"the text has {len(text):,} characters: at most {LONGEST:,} are read")
        self.text, self.next, self.depth = text, 0, 0
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while not self.tokens or self.tokens[-1][0] != "end":
            match = TOKEN.match(text, at)
            assert match is not None and match.lastgroup is not None
            self.tokens.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            at = match.end()

    # ------------------------------------------------------------------ tokens

    @property
    def at(self) -> int:
        """Where the next token begins."""
        return self.tokens[self.next][2]

    def sees(self, *signs: str, ahead: int = 0) -> bool:
        """Return whether the next token, or one further ahead, is one of these signs."""
        kind, value, _ = self.tokens[min(self.next + ahead, len(self.tokens) - 1)]
        return kind == "sign" and value in signs

    def take(self, kind: str, wanted: str) -> str:
        """Return the next token, which must be of a kind; ``wanted`` names it in an error."""
        found, value, at = self.tokens[self.next]
        if found != kind:
            raise self.error(f"{wanted} is expected{' here' if found == 'end' else f', not {value!r}'}", at)
        self.next += 1
        return value

    def took(self, sign: str) -> bool:
        """Return whether the next token is this sign, and pass it if it is."""
        if not self.sees(sign):
            return False
        self.next += 1
        return True

    def need(self, sign: str, after: str) -> None:
        """Pass a sign that must come here."""
        if not self.took(sign):
            kind, value, at = self.tokens[self.next]
            raise self.error(f"{sign!r} is expected {after}{'' if kind == 'end' else f', not {value!r}'}", at)

    def end(self) -> None:
        """Raise TextError unless the text ends here."""
        kind, value, at = self.tokens[self.next]
        if kind != "end":
            raise self.error(f"{value!r} has no place here: mechanisms are joined by + or &, sublayers by >", at)

    def error(self, message: str, at: int) -> TextError:
        return TextError(self.text, at, message)

    def separated(self, sign: str, read: Callable[[], T]) -> tuple[T, ...]:
        """Return what ``read`` returns, as often as the sign follows."""
        found = [read()]
        while self.took(sign):
            found.append(read())
        return tuple(found)

    # ------------------------------------------------------------------ the grammar

    def stretch(self) -> Stretch:
        at, (kind, value, _) = self.at, self.tokens[self.next]
        ranges = None
        if kind == "word" and value == "all" and self.sees(":", ahead=1):
            self.next += 2
        elif kind == "number" and not self.sees("*", ahead=1):
            ranges = self.separated(",", self.range)
            self.need(":", "after the layers")
        sublayers = self.separated(">", self.sublayer)
        if len(sublayers) > MOST_SUBLAYERS:
            raise self.error(f"{len(sublayers):,} sublayers: a layer has {MOST_SUBLAYERS} or less", at)
        return Stretch(sublayers, ranges, at)

    def range(self) -> tuple[int, int]:
        at = self.at
        first = last = self.whole("a layer's number")
        if self.took("-"):
            last = self.whole("a layer's number")
        elif self.tokens[self.next][1].startswith("-"):  # 1-3: the tokens are 1 and -3
            last = -self.whole("a layer's number")
        if not 1 <= first <= last:
            raise self.error("layers are numbers from 1, the lower one first, as in 1-3,6", at)
        return first, last

    def whole(self, wanted: str) -> int:
        at, text = self.at, self.take("number", wanted)
        if not re.fullmatch(r"-?\d{1,9}", text):
            raise self.error(f"{wanted} is expected, not {text!r}", at)
        return int(text)

    def sublayer(self) -> Sublayer:
        kind, value, at = self.tokens[self.next]
        if kind == "word" and value in SUBLAYERS:
            mechanism = self.word()
            if self.sees("+", "&", "*"):
                raise self.error(f"{value} is a sublayer of its own, not heads of an attention: join it by >", at)
            if value != "conv" and mechanism.options:
                raise self.error(f"{value} has no options", at)
            return Sublayer(mechanism)
        return Sublayer(self.attention())

    def attention(self) -> Attention:
        at = self.at
        groups = self.separated("+", self.group)
        if len({group.heads is None for group in groups}) > 1:
            place = next(group.at for group in groups if group.heads is None)
            raise self.error("give a number of heads for every group, as in 2*local + 6*global, or for none", place)
        return Attention(groups, at)

    def group(self) -> Group:
        at, heads = self.at, None
        if self.tokens[self.next][0] == "number":
            heads = self.whole("a number of heads")
            if heads < 1:
                raise self.error("a group has 1 head or more", at)
            self.need("*", "after the number of heads")
        return Group(self.joint(), heads, at)

    def joint(self) -> tuple[Mechanism, ...]:
        return tuple(each for part in self.separated("&", self.mechanism) for each in part)

    def mechanism(self) -> tuple[Mechanism, ...]:
        at = self.at
        if not self.took("("):
            return (self.word(),)
        self.depth += 1
        if self.depth > 20:
            raise self.error("brackets are nested too deeply", at)
        found = self.joint()
        self.need(")", "after the mechanisms")
        self.depth -= 1
        return found

    def word(self) -> Mechanism:
        at = self.at
        name = self.take("word", "a mechanism, such as local or csan(window=11),")
        options: dict[str, Value] = {}
        places: dict[str, int] = {}
        if self.took("("):
            if not self.sees(")"):
                self.separated(",", lambda: self.option(options, places))
            self.need(")", "after the options")
        return Mechanism(name, options, at, places)

    def option(self, options: dict[str, Value], places: dict[str, int]) -> None:
        at = self.at
        name = self.take("word", "the name of an option")
        if name in options:
            raise self.error(f"{name} is given twice", at)
        self.need("=", f"after the option {name}")
        kind, value, place = self.tokens[self.next]
        self.next += 1
        if kind == "number" and len(value) > LONGEST_NUMBER:
            raise self.error(f"{name}: a number has {LONGEST_NUMBER} characters or less, not {len(value):,}", place)
        if kind == "number":
            options[name] = int(value) if re.fullmatch(r"-?\d+", value) else float(value)
        elif kind == "quoted":
            options[name] = value[1:-1]
        elif kind == "word":
            options[name] = value
        else:
            raise self.error(f"a value of {name} is expected: a number, a word, or a text in quotes", place)
        places[name] = place
