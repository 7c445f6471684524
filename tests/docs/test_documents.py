"""What README and documentation name is there: links, paths, scripts, commands; and the README is short."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from fairseq import options
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY

import fairseq_localattn
from fairseq_localattn.models.architectures import localattn_architectures
from support.documents import DOCUMENTS, blocks
from support.paths import ROOT

every_document = pytest.mark.parametrize(
    "path", [*DOCUMENTS, *sorted((ROOT / "results").glob("*.md"))], ids=lambda path: str(path.relative_to(ROOT))
)
# A path in code, from one of the repository's folders; what has a placeholder or a pattern in it is none.
NAMED = re.compile(
    r"(?<![\w./$<{-])((?:fairseq_localattn|scripts|data-prep|configs|examples|benchmarks|results|tests|docs)/[\w./-]*)"
    r"(?![\w<>*{}…])"
)
EXAMPLE = re.compile(r"dilated|configs/mine")  # files that add-a-variant.md and own-data.md tell their reader to write
SPAN = re.compile(r"`([^`\n]+)`")


def prose(path: Path) -> str:
    """Return a document without its blocks of code."""
    return re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.M | re.S)


def code(path: Path) -> str:
    """Return the blocks and the spans of code of a document."""
    return "\n".join([*(block.text for block in blocks(path)), *SPAN.findall(prose(path))])


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_readme_is_short():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.split()) <= 900 and "\n<!-- table summary -->\n" in text


@every_document
def test_relative_links_lead_to_a_file_and_a_heading(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", SPAN.sub("", prose(path))):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "https", link
            continue
        target = path.parent / parts.path if parts.path else path
        assert target.exists(), link
        if parts.fragment:
            assert parts.fragment in anchors(target), link


@every_document
def test_what_code_names_is_there(path: Path) -> None:
    """Paths, scripts that can be started, modules, architectures and their flags."""
    text = code(path)
    for name in NAMED.findall(text):
        assert (ROOT / name.rstrip(".")).exists() or EXAMPLE.search(name), name
    for name in re.findall(r"(?:^|\s)(?<!bash )((?:scripts|data-prep|examples)/[\w/-]+\.sh)", text):
        assert os.access(ROOT / name, os.X_OK), name
    for module in re.findall(r"python -m (fairseq_localattn[\w.]*\w)(?![\w.<])", text):
        place = ROOT.joinpath(*module.split("."))
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
    for architecture in re.findall(r"(?:--arch |^)(transformer_\w*\w)(?![\w…{<*])", text, re.M):
        assert architecture in ARCH_MODEL_REGISTRY or EXAMPLE.search(architecture), architecture
    known, prefixes = known_flags()
    for flag in re.findall(rf"--(?:{'|'.join(sorted(prefixes))})-[a-z-]*[a-z]", text):
        assert flag in known, flag


@functools.cache
def known_flags() -> tuple[set[str], set[str]]:
    models = [MODEL_REGISTRY[model] for model in set(localattn_architectures().values())]
    known: set[str] = set()
    for model in models:
        parser = options.get_parser("test")
        model.add_args(parser)
        known |= set(parser._option_string_actions)
    return known, {"localattn", *(model.prefix for model in models)}


def test_citation_names_the_software_and_the_five_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"cff-version", "message", "authors"} <= set(citation)
    assert citation["version"] == fairseq_localattn.__version__ and citation["license"] == "MIT"
    assert len(citation["references"]) == 5
    pages = "\n".join(path.read_text("utf-8") for path in (ROOT / "docs" / "papers").glob("*.md"))
    for paper in citation["references"]:
        assert {"type", "title", "authors", "year", "doi", "url"} <= set(paper)
        assert paper["url"] in pages, paper["title"]
        assert all({"family-names", "given-names"} == set(author) for author in paper["authors"])
