"""docs/compose.md says of each word what the grammar knows, and its texts are read."""

from __future__ import annotations

import re

import pytest

from fairseq_localattn.grammar.build import CONVOLUTION
from fairseq_localattn.grammar.parse import parse_stack
from fairseq_localattn.grammar.placement import SITES
from fairseq_localattn.grammar.words import WORDS, Option
from support.paths import ROOT

PAGE = (ROOT / "docs" / "compose.md").read_text("utf-8")


def shown(options: dict[str, Option]) -> str:
    """Return the options with their defaults, as the page writes them."""
    values = {name: str(option.default) for name, option in options.items() if name != "activation"}
    constants = {"True": "true", "False": "false", "None": "none"}
    given = (f"`{name}={constants.get(text, text)}`" for name, text in values.items())
    return ", ".join(text if "," not in text else text.replace("=", '="').removesuffix("`") + '"`' for text in given)


def table() -> list[str]:
    """Return the rows of the table of words."""
    rows = []
    for name, word in WORDS.items():
        sites = ", ".join(site for site in SITES if not word.reason_against(site))
        rows.append(f"| `{name}` | {word.about} | {shown(word.options)} | {sites} |")
    return rows


def test_the_table_has_all_words_with_their_options_and_sites() -> None:
    begin = PAGE.index("| word |")
    found = PAGE[begin : PAGE.index("\n\n", begin)].splitlines()[2:]
    assert found == table(), "\n".join(table())


def test_the_options_of_a_convolution_are_told() -> None:
    assert f"`conv` ({shown(CONVOLUTION)})" in PAGE


@pytest.mark.parametrize("text", re.findall(r'--localattn-\w+ "([^"]+)"', PAGE))
def test_its_texts_are_read(text: str) -> None:
    parse_stack(text)
