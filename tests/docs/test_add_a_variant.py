"""The page on adding a variant is literally right: its blocks, in a copy of the package, make a variant that passes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import checked, environment, make_data, train_flags
from support.documents import blocks
from support.paths import ROOT

PAGE = blocks(ROOT / "docs" / "add-a-variant.md")
FILES = {block.title: block.text for block in PAGE if block.title and block.language != "diff"}
COPIED = ("fairseq_localattn", "scripts", "configs", "data-prep", "tests/contract", "tests/support")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the package and of the contract, with the files of the page."""
    root = tmp_path_factory.mktemp("checkout")
    for name in COPIED:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "tests/conftest.py"):
        shutil.copy(ROOT / name, root / name)
    assert len(FILES) == 5
    for title, text in FILES.items():
        (root / title).parent.mkdir(parents=True, exist_ok=True)
        (root / title).write_text(text, encoding="utf-8")
    (diff,) = (block for block in PAGE if block.language == "diff")
    changed, registered = root / diff.title, root / "fairseq_localattn" / "variants" / "__init__.py"
    changed.write_text(added(changed.read_text("utf-8"), diff.text), encoding="utf-8")
    names = re.sub('(")?diffwin(")?,', r"\g<0> \1dilated\2,", registered.read_text("utf-8"))
    registered.write_text(names, encoding="utf-8")
    return root


def added(text: str, diff: str) -> str:
    """Return a file's text with the lines of a diff that begin with +, each after the line before it."""
    before = ""
    for line in diff.splitlines():
        if line.startswith("+"):
            assert text.count(f"{before}\n") == 1, before
            text = text.replace(f"{before}\n", f"{before}\n{line[1:]}\n")
        before = line[1:]
    return text


# Runs modules one after the other in one process, for the seconds of their imports.
IN_TURN = """
import json, runpy, sys
for name, *words in json.loads(sys.argv[1]):
    sys.argv = [name, *words]
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        assert not stop.code, (name, stop.code)
"""


def run(checkout: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command, variables = [sys.executable, *args], environment() | {"PYTHONPATH": str(checkout)}
    done = subprocess.run(command, cwd=checkout, env=variables, capture_output=True, text=True, timeout=300)
    return checked(done, check=True)


@pytest.mark.slow
def test_the_variant_passes_its_tests_and_the_contract(checkout: Path) -> None:
    done = run(checkout, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", "-k", "dilated")
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) > 20


def test_the_files_are_as_the_repository_wants_them(checkout: Path) -> None:
    files = [name for name in FILES if name.endswith(".py")]
    for command in (["check"], ["format", "--check"]):
        run(checkout, "-m", "ruff", *command, "--no-cache", *files)


@pytest.mark.slow
def test_the_table_is_planned(checkout: Path) -> None:
    done = run(checkout, "scripts/table.py", "dilated", "table1", "--dry-run")
    trained = re.findall(r"--arch (\S+)", done.stdout)
    assert set(trained) == {"transformer_localattn_small", "transformer_dilated_small"}
    assert "--dilated-rate 3" in done.stdout


@pytest.mark.slow
def test_a_word_of_ones_own_trains_decodes_and_is_analysed(checkout: Path, tmp_path: Path) -> None:
    """The commands of the last part, with the folder of the page as --user-dir; the variant is listed."""
    data, text = make_data(tmp_path / "data", train=40), "2*slope(slope=0.3) + 2*global"
    user_dir = ("--user-dir", "mine")
    flags = train_flags(data, "transformer_hybrid_tiny", tmp_path, 4, localattn_encoder=text)
    checkpoint = tmp_path / "checkpoint_last.pt"
    commands: list[list[object]] = [
        ["fairseq_cli.train", *flags, *user_dir],
        ["fairseq_cli.generate", data, "--path", checkpoint, "--cpu", *user_dir],
        ["fairseq_localattn", "describe", "--path", checkpoint, *user_dir],
        ["fairseq_localattn", "draw", text, "--out", tmp_path / "slope.png", *user_dir],
        ["fairseq_localattn.analysis.locality", data, "--path", checkpoint, "--cpu", *user_dir],
        ["fairseq_localattn"],
    ]
    done = run(checkout, "-c", IN_TURN, json.dumps([[*map(str, words)] for words in commands]))
    lines = done.stdout.splitlines()
    assert "Generate test" in done.stdout and f"encoder  all: {text}" in lines
    assert (tmp_path / "slope.png").stat().st_size > 1000
    assert "  transformer_dilated _iwslt_de_en _medium _small _tiny _wmt_en_de _wmt_en_de_big" in lines
