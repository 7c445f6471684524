"""docs/compose.md says of each word what the grammar knows, and its texts are read."""

from __future__ import annotations

import re

import pytest
import torch
from fairseq.modules.rotary_positional_embedding import RotaryPositionalEmbedding, apply_rotary_pos_emb

import fairseq_localattn
from fairseq_localattn.grammar.build import CONVOLUTION
from fairseq_localattn.grammar.parse import parse_stack
from fairseq_localattn.grammar.placement import SITES
from fairseq_localattn.grammar.words import WORDS, Option
from support.paths import ROOT

PAGE = (ROOT / "docs" / "compose.md").read_text("utf-8")


def shown(options: dict[str, Option]) -> str:
    """Return the options with their defaults, as the page writes them."""
    values = {name: option.default for name, option in options.items() if name != "activation"}
    texts = {name: str(value).lower() if value in (True, False, None) else value for name, value in values.items()}
    return ", ".join(f'`{name}="{text}"`' if "," in str(text) else f"`{name}={text}`" for name, text in texts.items())


def test_the_table_has_all_words_with_their_options_and_sites() -> None:
    rows = []
    for name, word in WORDS.items():
        sites = ", ".join(site for site in SITES if not word.reason_against(site))
        rows.append(f"| `{name}` | {word.about} | {shown(word.options)} | {sites} |")
    begin = PAGE.index("| word |")
    assert PAGE[begin : PAGE.index("\n\n", begin)].splitlines()[2:] == rows, "\n".join(rows)


def test_the_options_of_a_convolution_are_told() -> None:
    assert f"`conv` ({shown(CONVOLUTION)})" in PAGE


@pytest.mark.parametrize("text", re.findall(r'--localattn-\w+ "([^"]+)"', PAGE))
def test_its_texts_are_read(text: str) -> None:
    parse_stack(text)


LENGTH = 20
ROWS = re.findall(r"^\| .+ \| `\w+=\d+` \| (\d+) \| (-?\d+) to (\d+) \| (`.+`) \| (\w+) \|$", PAGE, re.M)
WINDOWS = [(text, *map(int, row[:3]), row[4]) for row in ROWS for text in re.findall("`(.+?)`", row[3])]


def test_each_row_of_windows_is_read() -> None:
    section = PAGE[PAGE.index("## What `window` means") :]
    assert len(ROWS) == section[: section.index("\n\nSome windows")].count("\n| ") - 1 > 5


@pytest.mark.parametrize(("text", "keys", "low", "high", "site"), [*dict.fromkeys(WINDOWS)])
def test_the_same_text_shows_the_same_keys(text: str, keys: int, low: int, high: int, site: str) -> None:
    """The weights of a query are not 0 for the keys at the distances of the table, and for no others."""
    x = torch.randn(1, LENGTH, 8)
    _, weights = fairseq_localattn.attention(text, 8, 2, batch_first=True, site=site).eval()(x, x, x)
    for query in range(LENGTH):
        seen = [key for key in range(LENGTH) if low <= key - query <= high]
        assert weights[0, query].nonzero().flatten().tolist() == seen
    assert keys == high - low + 1


def test_windows_of_csan_and_sinks_in_a_decoder() -> None:
    for text, keys in re.findall(r"`((?:csan|sinks)\([^`]+\))` sees (\d)", PAGE):
        x = torch.randn(1, LENGTH, 8)
        _, weights = fairseq_localattn.attention(text, 8, 4, batch_first=True, site="decoder").eval()(x, x, x)
        assert (weights[0, -1] > 0).sum() == int(keys)


@pytest.mark.parametrize("bias", [True, False])
def test_weights_of_halves_that_are_rotated_become_those_of_pairs(bias: bool) -> None:
    """fairseq's rotation, which is Llama's, of the given weights, and ours of the reordered ones."""
    found: dict = {}
    (code,) = re.findall(r"```python\n(def rows_for_rope.*?)```", PAGE, re.S)
    exec(code, found)
    torch.manual_seed(1)
    ours = fairseq_localattn.attention("rope", 24, 3, bias=bias).double().eval().attention
    if bias:
        for projection in (ours.q_proj, ours.k_proj):
            torch.nn.init.normal_(projection.bias)
    x = torch.randn(LENGTH, 2, 24, dtype=torch.float64)
    q, k, v = (projection(x).unflatten(2, (3, 8)) for projection in (ours.q_proj, ours.k_proj, ours.v_proj))
    cos, sin = RotaryPositionalEmbedding(8).double()(x, LENGTH)
    q, k = apply_rotary_pos_emb(q, k, cos, sin)
    heads = [each.permute(1, 2, 0, 3) for each in (q, k, v)]
    attended = torch.nn.functional.scaled_dot_product_attention(*heads).permute(2, 0, 1, 3).flatten(2)
    with torch.no_grad():
        for parameter in (*ours.q_proj.parameters(), *ours.k_proj.parameters()):
            parameter.copy_(found["rows_for_rope"](parameter, 3))
    torch.testing.assert_close(ours(x, x, x)[0], ours.out_proj(attended), rtol=1e-5, atol=1e-6)
