"""The documentation builds as a site, strictly and without network, and every link inside of it leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from docs import hooks
from fairseq_localattn.options import flag_of, option_names

REPO = Path(__file__).resolve().parents[2]
# A proxy that refuses: a theme or plugin that fetches something fails.
NO_NETWORK = {f"{name}_proxy": "http://127.0.0.1:9" for name in ("http", "https", "HTTP", "HTTPS")}


class Page(HTMLParser):
    """Collects the addresses that a page names, those that it loads when shown, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if values.get("id"):
            self.anchors.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag in ("script", "img") and "src" in values:
            self.loaded.append(values["src"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "shortcut icon", "preload"):
            self.loaded.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is missing: pip install -e '.[docs]'")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is missing: pip install -e '.[docs]'")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    done = subprocess.run(
        command, cwd=REPO, env={"PATH": "", **NO_NETWORK}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


pytestmark = pytest.mark.xdist_group("site")


def test_every_page_is_built(pages: dict[Path, Page], site: Path) -> None:
    wanted = {path.relative_to(REPO / "docs").with_suffix(".html") for path in (REPO / "docs").rglob("*.md")}
    assert wanted <= {path.relative_to(site) for path in pages}


def test_every_link_inside_leads_to_a_page_and_an_anchor(pages: dict[Path, Page]) -> None:
    broken = []
    for path, page in pages.items():
        if path.name in ("404.html", "search.html"):
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.name}: {link}: no such file")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.name}: {link}: no such anchor")
    assert not broken, "\n".join(broken)


def test_nothing_is_fetched_from_the_web(pages: dict[Path, Page], site: Path) -> None:
    loaded = {address for page in pages.values() for address in page.loaded}
    assert loaded and not [address for address in loaded if urlsplit(address).netloc]
    for sheet in site.rglob("*.css"):
        fetched = re.findall(r"url\([\"']?(?:https?:)?//[^)]*\)|@import[^;]*//[^;]*;", sheet.read_text("utf-8"))
        assert not fetched, f"{sheet.name}: {fetched[:3]}"


def test_api_pages_show_signatures_and_docstrings(site: Path) -> None:
    shown = (site / "api" / "core.html").read_text("utf-8")
    assert "fairseq_localattn.core.attention.LocalAttention" in shown
    text = re.sub(r"<[^>]*>", "", shown)
    assert "key_padding_mask" in text and ":class:" not in text and ":func:" not in text


def test_tables_of_flags_are_those_of_the_options(site: Path) -> None:
    found = 0
    for path in (REPO / "docs").rglob("*.md"):
        shown = (site / path.relative_to(REPO / "docs").with_suffix(".html")).read_text("utf-8")
        for name in hooks.FLAGS.findall(path.read_text("utf-8")):
            rows = [f"<tr><td><code>{flag_of(option)}</code></td>" for option in option_names(hooks.options_of(name))]
            assert rows and [row for row in rows if shown.count(row) != 1] == [], path.name
            found += 1
        assert "<!-- flags" not in shown, path.name
    assert found > 5
    with pytest.raises(AttributeError, match="MMAOption"):
        hooks.on_page_markdown("<!-- flags: variants.mma.MMAOption -->")
