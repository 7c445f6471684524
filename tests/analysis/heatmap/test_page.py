"""The page to browse all layers and heads: its values, what it does with hostile words, its size, and in a browser."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_localattn.analysis.attention_weights import collect_masks, collect_weights
from fairseq_localattn.analysis.heatmap import command as heatmap
from fairseq_localattn.analysis.heatmap import page as heatmap_page
from fairseq_localattn.analysis.heatmap.command import make_parser, page_data
from fairseq_localattn.analysis.heatmap.maps import site_attentions
from fairseq_localattn.analysis.heatmap.page import HIDDEN, document
from fairseq_localattn.analysis.heatmap.pairs import Pair, encode
from fairseq_localattn.errors import UsageError
from support.analysis import as_trained
from support.models import CASES, build, case, dictionary, phrases_of

SITES = ("encoder", "decoder", "cross")
HOSTILE = ("</script><script>alert(1)</script>", "<img/src=x/onerror=alert(2)>", "{{data}}", "'\"`${alert(3)}", "]]>")
NAME = f"{HOSTILE[0]}\u2028"


def arguments(*words: str) -> Any:
    return make_parser().parse_args(["data", "--path", "a.pt", "--html", "a.html", *words])


def typed(source: str = "w1 w2 w3 w4 w5 w6", target: str = "w7 w8 w9 w1") -> list[str]:
    return ["--source", source, "--target", target]


def data_in(page: str) -> Any:
    """Return the JSON that a parser of HTML finds in a page, which must be all of its one block of data."""
    tags: list[str] = []
    texts: list[str] = []  # of each tag

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            tags.append(tag)
            texts.append("")

        def handle_data(self, data: str) -> None:
            if texts:
                texts[-1] += data

    Reader().feed(page)
    assert tags.count("script") == 2 and "img" not in tags
    return json.loads(texts[tags.index("script")])


@pytest.mark.parametrize(
    "name", ["transformer_man_tiny", "transformer_diffwin_tiny", "hybrid-heads", "localness-luong"]
)
def test_the_page_holds_all_weights(name: str) -> None:
    """Every attention of every site, each head to a thousandth, with its soft mask; what is 0 is marked."""
    model = case(name)
    data = data_in(document(page_data([as_trained(model)], ["it"], arguments(*typed()))))
    (checkpoint,), (sentence,) = data["checkpoints"], data["sentences"]
    pair = Pair(*(encode(text, dictionary(), "-") for text in typed()[1::2]))
    source, target = ([*text.split(), "</s>"] for text in typed()[1::2])
    assert sentence["words"] == [source, target]
    labels = {"encoder": [source, source], "decoder": [target, ["</s>", *target[:-1]]], "cross": [target, source]}
    assert sentence["tokens"] == labels and data["sites"] == list(SITES)
    for site in SITES:
        attentions = site_attentions(model, site)
        said, maps = checkpoint["attentions"][site], sentence["maps"][0][site]
        with torch.no_grad(), collect_masks(attentions) as masks, collect_weights(attentions, by_head=True) as weights:
            model(pair.source[None], torch.tensor([7]), pair.read[None])
        assert set(weights) == set(attentions) and maps, "weights are in the order in which the attentions ran"
        assert [(at.layer, at.name, at.kind) for at in weights] == [(s["layer"], s["name"], s["kind"]) for s in said]
        for at, entry in zip(weights, maps, strict=True):
            got, hidden = torch.tensor(entry["weights"]), weights[at][0] == 0
            assert torch.equal(got == HIDDEN, hidden) and (site != "decoder" or hidden.triu(1).any())
            torch.testing.assert_close(got.clamp(min=0).float(), weights[at][0] * 1000, rtol=0, atol=0.5001)
            assert ("masks" in entry) == (at in masks)
            for head, mask in enumerate(entry.get("masks", ())):
                seen = ~hidden[head]
                wanted = masks[at][0, head][seen] * 1000
                got = torch.full_like(wanted, torch.nan) if mask is None else torch.tensor(mask)[seen].float()
                torch.testing.assert_close(got, wanted, rtol=0, atol=0.5001, equal_nan=True)


# Together they have every word of the grammar, at every site where it is defined.
@pytest.mark.slow
@pytest.mark.parametrize("name", [*(name for name in CASES if name.startswith("hybrid-")), "transformer_mgsa_tiny"])
def test_every_mechanism_has_a_page(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No head without a kind, and no more values than were counted."""
    trained = as_trained(case(name))
    if getattr(trained.model.encoder, "needs_phrases", False):
        (alone,) = heatmap.by_sentence(arguments(*typed()))
        pair = heatmap.read_pair(trained, alone)
        phrases = replace(pair, phrases=phrases_of(pair.source[None]))
        monkeypatch.setattr(heatmap, "read_pair", lambda *_: phrases)
    data = page_data([trained], ["it"], arguments(*typed()))
    sizes = {"encoder": (7, 7), "decoder": (5, 5), "cross": (5, 7)}
    for site, size in sizes.items():
        attentions = site_attentions(trained.model, site)
        maps = data["sentences"][0]["maps"][0][site]
        values = sum(len(entry["weights"]) + sum(m is not None for m in entry.get("masks", ())) for entry in maps)
        assert values * size[0] * size[1] <= heatmap_page.count_values(attentions, *size)
        for entry, said in zip(maps, data["checkpoints"][0]["attentions"][site], strict=True):
            assert torch.tensor(entry["weights"]).shape == (len(said["heads"]), *size) and all(said["heads"])


def test_two_checkpoints_and_one_site() -> None:
    """Each with its own text; --site leaves the others out; typed words are read by both."""
    models = [as_trained(build(arch).eval()) for arch in ("transformer_csan_tiny", "transformer_localattn_tiny")]
    data = page_data(models, ["a", "b"], arguments(*typed(), "--site", "encoder"))
    assert data["sites"] == ["encoder"] and [c["name"] for c in data["checkpoints"]] == ["a", "b"]
    assert [c["texts"] for c in data["checkpoints"]] == [{"encoder": "1: csan"}, {"encoder": "all: san"}]
    assert [set(maps) for maps in data["sentences"][0]["maps"]] == [{"encoder"}, {"encoder"}]
    assert data["sentences"][0]["label"] == "a given pair"


def hostile_page(*names: str) -> str:
    """Return the page of models with a dictionary whose words try to leave their place; the first has such a name."""
    words = Dictionary()
    for n in range(40):
        words.add_symbol(HOSTILE[n] if n < len(HOSTILE) else f"w{n}")
    models = [as_trained(case(name), words) for name in names]
    return document(page_data(models, [NAME, "b"][: len(models)], arguments(*typed(*[" ".join(HOSTILE)] * 2))))


def test_words_stay_words_and_only_the_own_script_may_run() -> None:
    """The page gains no tag, its policy has the digest of its script and lets nothing be loaded; it has no address."""
    page = hostile_page("transformer_mma_tiny")
    data = data_in(page)
    assert data["sentences"][0]["words"][0] == [*HOSTILE, "</s>"] and data["checkpoints"][0]["name"] == NAME
    values = page.partition('id="data">')[2].partition("</script>")[0]
    assert not set("<>&\u2028") & set(values)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy"\s+content="([^"]*)"', page)
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["script-src"] == f"'sha256-{digest}'"
    assert "innerHTML" not in script and "eval(" not in script and "document.write" not in script
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", page)


def test_a_page_that_is_too_large_is_refused_before_a_model_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = as_trained(case("transformer_mma_tiny"))
    values = 2 * 4 * (7 * 7 + 5 * 5 + 5 * 7)
    monkeypatch.setattr(heatmap_page, "MOST_VALUES", values)
    page_data([trained], ["it"], arguments(*typed()))
    monkeypatch.setattr(heatmap_page, "MOST_VALUES", values - 1)
    monkeypatch.setattr(heatmap, "run_model", None)
    with pytest.raises(UsageError, match="--html a.html: 872 weights and masks, and a page holds 871") as error:
        page_data([trained], ["it"], arguments(*typed()))
    assert str(error.value).endswith(": give fewer or shorter sentences, one --path, or one --site")


def test_weights_that_are_no_numbers() -> None:
    model = build("transformer_localattn_tiny").eval()
    model.encoder.layers[0].self_attn.q_proj.weight.data.fill_(float("nan"))
    with pytest.raises(UsageError, match="the weights of self_attn in encoder layer 1 are not finite"):
        page_data([as_trained(model)], ["it"], arguments(*typed()))


def test_numbers_of_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert arguments("--sentence", "4,0,4").sentence == [4, 0]
    assert arguments("--sentence", "-1").sentence == [-1]  # refused with the split's numbers when it is read
    with pytest.raises(SystemExit):
        arguments("--sentence", "1,x")
    assert "argument --sentence: '1,x': give numbers from 0 with commas between" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not (CHROMIUM := shutil.which("chromium")), reason="chromium is not installed")
def test_in_a_browser(tmp_path: Path) -> None:
    """The page as a browser without network makes it: maps of all heads, their kinds, and words that do nothing."""
    path = tmp_path / "a.html"
    path.write_text(hostile_page("transformer_mma_tiny", "transformer_diffwin_tiny"), encoding="utf-8")
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--v=0", "--dump-dom"]
    where = f"file://{path}#site=encoder&place=1&head=2"
    done = subprocess.run([*map(str, command), where], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr, done.stderr[-2000:]
    body = done.stdout.partition('<main id="columns">')[2].partition("</main>")[0]
    assert body.count("<section>") == 2 and "<img" not in done.stdout and "<script>alert" not in done.stdout
    assert done.stdout.count("<script") == 2
    assert body.count("<figure>") == 2 and "soft mask:" not in body  # layer 2 of both is without windows
    assert body.count('type="button"') == 2 * 2 * 5 and body.count('aria-current="true"') == 2
    assert "layer 2, head 2: local(window=1)" in body and ">local(window=1)</span>" in body
    assert "b, weights: layer 2, head 2: global" in body
    ends = re.findall(r'class="bar"[^>]*></span>([\d.]+)', body)
    assert len(ends) == 2 and len(set(ends)) == 1, "maps that are compared have one scale"
    assert "&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;\u2028</h2>" in body
