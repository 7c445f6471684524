"""The documentation builds as a site, strictly and without network, with every link leading somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs import hooks
from fairseq_localattn.options import flag_of, option_names
from support.paths import ROOT

# A proxy that refuses: a theme or plugin that fetches something fails.
NO_NETWORK = {f"{name}_proxy": "http://127.0.0.1:9" for name in ("http", "https", "HTTP", "HTTPS")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is missing: pip install -e '.[docs]'")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is missing: pip install -e '.[docs]'")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    done = subprocess.run(
        command, cwd=ROOT, env={"PATH": "", **NO_NETWORK}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_every_page_is_built(site: Path) -> None:
    """Links and anchors are checked by --strict, as mkdocs.yml says."""
    wanted = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert wanted <= {path.relative_to(site) for path in site.rglob("*.html")}


def test_nothing_is_fetched_from_the_web(site: Path) -> None:
    tag = r"<(?:script|img|link)\b[^>]*>"
    tags = [each for path in site.rglob("*.html") for each in re.findall(tag, path.read_text("utf-8"))]
    loading = [each for each in tags if 'rel="canonical"' not in each]
    assert any("stylesheet" in each for each in loading)
    assert [each for each in loading if re.search(r'(?:src|href)="?(?:https?:)?//', each)] == []
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
    for path in (ROOT / "docs").rglob("*.md"):
        shown = (site / path.relative_to(ROOT / "docs").with_suffix(".html")).read_text("utf-8")
        for name in hooks.FLAGS.findall(path.read_text("utf-8")):
            rows = [f"<tr><td><code>{flag_of(option)}</code></td>" for option in option_names(hooks.options_of(name))]
            assert rows and [row for row in rows if shown.count(row) != 1] == [], path.name
            found += 1
        assert "<!-- flags" not in shown, path.name
    assert found > 5
    with pytest.raises(AttributeError, match="MMAOption"):
        hooks.on_page_markdown("<!-- flags: variants.mma.MMAOption -->")
