"""Rules of the repository's structure: layers, no import cycles, small doors, files and folders."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from support.cli import BIN, run
from support.paths import ROOT

PACKAGES = ("benchmarks", "corpora", "experiments", "fairseq_localattn")
FOLDERS = ("benchmarks", "data-prep", "examples", "fairseq_localattn", "results", "scripts", "tests")
# Scripts that users start: they find their packages themselves, and leave the work to them.
DOORS = {
    *(path for folder in ("scripts", "data-prep", "results") for path in (ROOT / folder).glob("*.py")),
    ROOT / "benchmarks" / "run.py",
}
MOST_LINES, MOST_LINES_OF_A_DOOR, MOST_MODULES = 400, 60, 13
PYTHON_FILES = [*ROOT.glob("*.py"), *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_layers_and_forbidden_imports() -> None:
    """Check the contracts of [tool.importlinter] in pyproject.toml, in a process of its own: it keeps sys.stdout."""
    run(BIN / "lint-imports", "--no-cache", cwd=ROOT)


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """The imports of all packages, those for type checkers included."""
    return grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False, cache_dir=None)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_cycle(graph: grimp.ImportGraph, package: str) -> None:
    """CycleError says the cycle."""
    modules = {package, *graph.find_descendants(package)}
    assert len(modules) > 5
    TopologicalSorter({each: graph.find_modules_directly_imported_by(each) for each in modules}).prepare()


def test_only_doors_change_the_import_path() -> None:
    def changes_path(path: Path) -> bool:
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        return any(isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path" for node in nodes)

    assert [named(path) for path in PYTHON_FILES if path not in DOORS and changes_path(path)] == []


def test_files_doors_and_folders_are_small() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PYTHON_FILES}
    bounds = {path: MOST_LINES_OF_A_DOOR if path in DOORS else MOST_LINES for path in lines}
    assert {named(path): count for path, count in lines.items() if count > bounds[path]} == {}
    modules = Counter(path.parent for path in lines if path.name != "__init__.py")
    assert {named(folder): count for folder, count in modules.items() if count > MOST_MODULES} == {}


def test_every_folder_has_a_row_in_the_house() -> None:
    house = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tracked = run("git", "ls-files", cwd=ROOT).stdout.split()
    folders = {path.partition("/")[0] for path in tracked if "/" in path and not path.startswith(".")}
    assert "findings" in folders
    assert [name for name in sorted(folders) if f"`{name}/" not in house] == []


FINDINGS = [path for path in (ROOT / "findings").glob("*.sh") if path.name != "lib.sh"]


@pytest.mark.parametrize("path", sorted(FINDINGS), ids=lambda path: path.name)
def test_findings_have_their_form(path: Path) -> None:
    """Each states guess, fact and source, installs fixed versions, and is run by nobody but a reader."""
    listed = (ROOT / "findings" / "README.md").read_text(encoding="utf-8")
    assert os.access(path, os.X_OK) and f"[{path.name}]({path.name})" in listed
    text = path.read_text(encoding="utf-8")
    head = re.match(
        r"#!/usr/bin/env bash\n# \S.+\n#\n# Guess: .+\n(?:#  .*\n)*# So:    .+\n(?:#  .*\n)*# In:    .+\n(?:#  .*\n)*",
        text,
    )
    assert head and text[head.end() :].startswith('. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"\n')
    packages = re.findall(r"^install (.+)$", text, re.MULTILINE)
    assert packages or "\ninstall_fairseq\n" in text
    assert all(re.fullmatch(r"[\w-]+==[\d.]+|--no-deps", each) for line in packages for each in line.split())
    assert "| seen " in text and "localattn" not in text and "://" not in text
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    assert not [each for each in workflows if "findings" in each.read_text(encoding="utf-8")]


def test_calls_pass_at_most_four_positional_arguments() -> None:
    """Calls, by their name alone, of the repository's functions and classes that do not take any number of them.

    Kernels are left out: their arguments are pointers, steps and sizes, of which each has many.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PYTHON_FILES if "tests" not in path.parts}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    many = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.args.vararg}
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)} - many
    own -= {node.name for node in nodes if isinstance(node, ast.FunctionDef)
            if any("triton.jit" in ast.unparse(each) for each in node.decorator_list)}  # fmt: skip
    found = [
        f"{named(path)}:{node.lineno}: {node.func.id}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in own and len([each for each in node.args if not isinstance(each, ast.Starred)]) > 4
    ]
    assert found == []
