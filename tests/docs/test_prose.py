"""Pages are read by people who have not seen the project: short sentences, and no words of our own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.paths import ROOT

LONGEST = 25  # words of a sentence
PRIVATE = ("beyond chance", "asks the modules")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "findings/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "results").glob("*.md")),
]


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs and list items of a page, without code, tables, headings, pictures and comments."""
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"^\s*(\||#|:::).*$", "", text, flags=re.M)
    text = re.sub(r"^\s*([-*]|\d+\.)\s+", "\n", text, flags=re.M)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def sentences(text: str) -> list[str]:
    """Return the sentences of a page; a span of code or a formula in it is one word, and a link its text."""
    found = []
    for part in paragraphs(text):
        part = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", part)
        part = re.sub(r"`[^`]*`|\$[^$]*\$", "`code`", part)
        found += re.split(r"(?<=[.!?])[*)]*\s+(?=[*(]*[A-Z`])", part)
    return found


def words(sentence: str) -> int:
    return len([word for word in sentence.split() if re.search(r"\w", word)])


def test_sentences_are_told_apart() -> None:
    text = "# One heading\n\nOne `a b c` two. *Three* four, [five six](x.md).\n- Seven (e.g. eight).\n\n| a | b |\n"
    assert [words(each) for each in sentences(text)] == [3, 4, 3]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sentences_are_short(path: Path) -> None:
    text = path.read_text("utf-8")
    assert [each for each in sentences(text) if words(each) > LONGEST] == []
    assert [word for word in PRIVATE if word in " ".join(text.split())] == []
