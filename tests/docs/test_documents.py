"""What README and documentation name is there: links, paths, scripts, commands; and the README is short."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

import fairseq_localattn

REPO = Path(__file__).resolve().parents[2]
TOP = ("README.md", "CONTRIBUTING.md")
DOCUMENTS = [
    *(REPO / name for name in TOP),
    *sorted((REPO / "docs").rglob("*.md")),
    *sorted((REPO / "results").glob("*.md")),
]
every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
# A path in code, from one of the repository's folders; what has a placeholder or a pattern in it is none.
NAMED = re.compile(
    r"(?<![\w./$<{-])((?:fairseq_localattn|scripts|data-prep|configs|examples|benchmarks|results|tests|docs)/[\w./-]*)"
    r"(?![\w<>*{}…])"
)
EXAMPLE = re.compile(r"dilated|configs/mine")  # files that add-a-variant.md and own-data.md tell their reader to write
MOST_WORDS = {"README.md": 900}


def code(text: str) -> list[str]:
    """The blocks and the spans of code of a document."""
    blocks = re.findall(r"^```.*?^```", text, re.M | re.S)
    return blocks + re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def prose(text: str) -> str:
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_readme_is_short():
    text = (REPO / "README.md").read_text("utf-8")
    assert len(text.split()) <= MOST_WORDS["README.md"]
    assert "\n<!-- table summary -->\n" in text


@every_document
def test_relative_links_lead_to_a_file_and_a_heading(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text("utf-8"))):
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "https", link
            continue
        target = path.parent / parts.path if parts.path else path
        assert target.exists(), link
        if parts.fragment:
            assert parts.fragment in anchors(target), link


@every_document
def test_named_paths_exist(path: Path) -> None:
    for part in code(path.read_text("utf-8")):
        for name in NAMED.findall(part):
            if not EXAMPLE.search(name):
                assert (REPO / name.rstrip(".")).exists(), name


@every_document
def test_named_scripts_can_be_started(path: Path) -> None:
    for part in code(path.read_text("utf-8")):
        for name in re.findall(r"(?:^|\s)((?:scripts|data-prep|examples)/[\w/-]+\.sh)", part):
            assert os.access(REPO / name, os.X_OK) or f"bash {name}" in part, name


@every_document
def test_named_modules_and_architectures_exist(path: Path) -> None:
    from fairseq.models import ARCH_MODEL_REGISTRY

    text = "\n".join(code(path.read_text("utf-8")))
    for module in re.findall(r"python -m (fairseq_localattn[\w.]*\w)(?![\w.<])", text):
        place = REPO.joinpath(*module.split("."))
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
    for architecture in re.findall(r"--arch (transformer\w*\w)(?![\w…])", text):
        assert architecture in ARCH_MODEL_REGISTRY or EXAMPLE.search(architecture), architecture
    for architecture in re.findall(r"^(transformer_\w*\w)$", "\n".join(re.findall(r"`([^`\n]+)`", text)), re.M):
        assert architecture in ARCH_MODEL_REGISTRY, architecture


@functools.cache
def known_flags() -> tuple[set[str], set[str]]:
    """Return the flags of the models, and their prefixes."""
    from fairseq import options
    from fairseq.models import MODEL_REGISTRY

    from fairseq_localattn.models.architectures import localattn_architectures

    known: set[str] = set()
    for model in set(localattn_architectures().values()):
        parser = options.get_parser("test")
        MODEL_REGISTRY[model].add_args(parser)
        known |= set(parser._option_string_actions)
    return known, {"localattn", *(MODEL_REGISTRY[model].prefix for model in set(localattn_architectures().values()))}


@every_document
def test_named_flags_exist(path: Path) -> None:
    known, prefixes = known_flags()
    text = "\n".join(code(path.read_text("utf-8")))
    for flag in re.findall(rf"--(?:{'|'.join(sorted(prefixes))})-[a-z-]*[a-z]", text):
        assert flag in known, flag


def test_citation_names_the_software_and_the_five_papers():
    citation = yaml.safe_load((REPO / "CITATION.cff").read_text("utf-8"))
    assert citation["cff-version"] == "1.2.0" and citation["message"] and citation["authors"]
    assert citation["version"] == fairseq_localattn.__version__ and citation["license"] == "MIT"
    assert len(citation["references"]) == 5
    pages = "\n".join(path.read_text("utf-8") for path in (REPO / "docs" / "papers").glob("*.md"))
    for paper in citation["references"]:
        assert {"type", "title", "authors", "year", "doi", "url"} <= set(paper)
        assert paper["url"] in pages, paper["title"]
        assert all({"family-names", "given-names"} == set(author) for author in paper["authors"])
