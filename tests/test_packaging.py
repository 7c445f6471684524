"""The package's metadata, requirements and wheel, the set-up script, and --user-dir from anywhere."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from unittest.mock import MagicMock

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import fairseq_localattn
from fairseq_localattn.__main__ import architectures
from fairseq_localattn.models.architectures import localattn_architectures, plain_architectures
from support.cli import USER_DIR, run
from support.paths import ROOT, SCRIPTS


def test_metadata():
    about = metadata.metadata("fairseq_localattn")
    assert about["Version"] == fairseq_localattn.__version__
    assert about.json.get("license", about.json.get("license_expression")) == "MIT"
    supported = SpecifierSet(about["Requires-Python"])
    minors = [minor for minor in range(9, 20) if f"3.{minor}" in supported]
    assert minors == [11, 12, 13]
    stated = [line.rsplit(" ", 1)[1] for line in about.get_all("Classifier") or []]
    assert stated == [f"3.{minor}" for minor in minors]
    script = (SCRIPTS / "setup.sh").read_text()
    assert "python3.11 python3.12 python3.13 python3;" in script
    assert "(3, 11) <= sys.version_info[:2] <= (3, 13)" in script
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")


@pytest.mark.parametrize("line", metadata.requires("fairseq_localattn") or [])
def test_every_requirement_has_a_range_and_a_pin_inside_it(line):
    requirement = Requirement(line)
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(each) for each in lines if each and not each.startswith("#")]
    (pin,) = (each for each in pins if canonicalize_name(each.name) == canonicalize_name(requirement.name))
    (exact,) = pin.specifier
    assert requirement.specifier and exact.operator == "==" and requirement.specifier.contains(exact.version)


@pytest.mark.slow
def test_main_prints_the_path_and_the_architectures(tmp_path):
    printed = run(sys.executable, "-m", "fairseq_localattn", cwd=tmp_path).stdout
    lines = printed.splitlines()
    assert lines[0] == str(USER_DIR) and all(len(line) <= 100 for line in lines[1:])
    rows = architectures()
    assert {arch: model for arch, model, _ in rows} == localattn_architectures() | plain_architectures()
    listed = set()
    for block in printed.split("\n\n")[2:]:
        paper, _, models = block.partition("\n  ")
        for line in re.split(r"\n  (?! )", models):  # other lines are continued
            stem, *endings = line.split()
            listed |= {(f"{stem}{ending}", " ".join(paper.split())) for ending in ("", *endings)}
    assert listed == {(arch, paper) for arch, _, paper in rows} and all(paper for _, _, paper in rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "status"), [([], 0), (["describe", "--arch", "transformer_mma", "--flags"], 141)], ids=["list", "command"]
)
def test_main_stops_in_silence_when_its_reader_does(tmp_path, given, status):
    """As ``python -m fairseq_localattn | head -1`` does; a command may have left work undone, and says so."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "fairseq_localattn", *given]
    done = subprocess.run(command, cwd=tmp_path, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=100)
    os.close(writer)
    assert done.returncode == status and "BrokenPipe" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_user_dir_after_the_package_was_imported(tmp_path):
    """fairseq refuses a second copy of a module as "not globally unique"; the installed package is the checkout."""
    code = f"""
import argparse, sys, fairseq_localattn
from fairseq import utils
utils.import_user_module(argparse.Namespace(user_dir={os.path.relpath(USER_DIR, tmp_path)!r}))
print(sys.modules["fairseq_localattn"].__file__)
"""
    assert run(sys.executable, "-P", "-c", code, cwd=tmp_path).stdout == f"{USER_DIR / '__init__.py'}\n"


@pytest.mark.slow
def test_the_release_holds_every_module_and_works_as_user_dir(tmp_path):
    """The wheel is built from the sdist and installed into a new environment; torch and fairseq are those here."""
    source, built, fresh = tmp_path / "source", tmp_path / "built", tmp_path / "fresh"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "build", "results")
    shutil.copytree(ROOT, source, ignore=ignored)
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(built)!r})"
    run(sys.executable, "-c", code, cwd=source)
    (sdist,) = built.iterdir()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", built, sdist)
    (wheel,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = source / "fairseq_localattn"
    files = [*package.rglob("*.py"), package / "analysis" / "heatmap" / "page.html"]
    assert names == {str(path.relative_to(source)) for path in files}

    run(sys.executable, "-m", "venv", "--without-pip", fresh)
    python = fresh / "bin" / "python"
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    (site,) = fresh.glob("lib/python*/site-packages")
    (site / "here.pth").write_text(f"{metadata.distribution('torch').locate_file('')}\n")
    module = [python, "-m", "fairseq_localattn"]
    assert run(*module, "--version", cwd=tmp_path).stdout.split()[-1] == fairseq_localattn.__version__
    path = run(*module, "--path", cwd=tmp_path).stdout.strip()
    assert path == str(site / "fairseq_localattn")
    args = ["--user-dir", path, "--arch", "transformer_csam_tiny"]
    done = run(python, "-m", "fairseq_cli.train", *args, cwd=tmp_path, check=False)
    assert done.returncode == 1 and done.stderr.endswith("; did you mean transformer_csan_tiny?\n")


# The set-up script. Every run of scripts/test.sh shows that it sets up; the tests show what it refuses.


def test_setup_explains_itself():
    assert "LOCALATTN_VENV" in run(SCRIPTS / "setup.sh", "--help").stdout


NO_ENVIRONMENT = f"{ROOT / 'tests'} is there and is no virtual environment"  # relative ones are to the repository


@pytest.mark.parametrize(
    ("name", "flags", "variable", "message"),
    [
        ("setup.sh", ["--fast"], ("PYTHON", ""), "unknown argument '--fast'"),
        ("setup.sh", [], ("PYTHON", "false"), "PYTHON=false is not a working Python 3.11, 3.12 or 3.13"),
        ("setup.sh", [], ("LOCALATTN_VENV", "tests"), NO_ENVIRONMENT),
        ("test.sh", [], ("LOCALATTN_VENV", "tests"), NO_ENVIRONMENT),
    ],
)
def test_the_scripts_refuse_and_leave_files_as_they_are(name, flags, variable, message, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCALATTN_VENV", str(tmp_path / "venv"))
    monkeypatch.setenv(*variable)
    done = run(SCRIPTS / name, *flags, cwd=tmp_path, check=False)
    assert done.returncode in (1, 2) and message in done.stderr and not list(tmp_path.iterdir())


def test_setup_keeps_an_environment_that_it_did_not_make(tmp_path, monkeypatch):
    """One without pip, as uv makes them, with packages in it."""
    kept = tmp_path / "venv/lib/python3.11/site-packages/mine-1.0.dist-info/RECORD"
    kept.parent.mkdir(parents=True)
    kept.write_text("mine")
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    monkeypatch.setenv("LOCALATTN_VENV", str(tmp_path / "venv"))
    done = run(SCRIPTS / "setup.sh", check=False)
    assert done.returncode == 1 and "was not made by this script" in done.stderr and kept.read_text() == "mine"


HEADS = ("#!{}", """#!/bin/sh\n'''exec' {} "$0" "$@"\n' '''""", """#!/bin/sh\n'''exec' "{}" "$0" "$@"\n' '''""")


@pytest.mark.parametrize("head", HEADS)
def test_setup_finds_the_interpreter_of_a_script(head, tmp_path):
    """As pip writes it: in the first line, and for a path that is long or has a space in the second."""
    python = "/a b/venv/bin/python3.11" if '"{}"' in head else "/a/venv/bin/python3.11"
    (tmp_path / "pip").write_text(head.format(python) + "\nimport sys\n")
    code = 'eval "$(sed -n \'/^interpreter_of()/,/^}/p\' "$0")"; interpreter_of "$1"'
    assert run("bash", "-c", code, SCRIPTS / "setup.sh", tmp_path / "pip").stdout == f"{python}\n"


@pytest.mark.parametrize(("lane", "chosen"), [("--quick", "-m not slow"), ("--attacks", "--attacks tests/attacks")])
def test_the_lanes_of_the_test_script(lane, chosen, tmp_path, monkeypatch):
    """The script in a repository where setting up does nothing, and Python prints its arguments."""
    for name, text in (("scripts/setup.sh", "exit 0"), (".venv/bin/python", 'echo "$*"')):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
    shutil.copy(SCRIPTS / "test.sh", tmp_path / "scripts")
    monkeypatch.setenv("LOCALATTN_VENV", "")
    monkeypatch.setenv("LOCALATTN_TEST_WORKERS", "2")
    done = run(tmp_path / "scripts" / "test.sh", lane, "-x")
    assert done.stdout.endswith(f"\n-m pytest --numprocesses 2 --dist loadgroup {chosen} -x\n")


@pytest.mark.parametrize("asked", [False, True])
def test_long_attacks_run_on_request_only(asked, pytestconfig):
    """By any way to start pytest; tests/conftest.py leaves them out."""
    hooks = next(each for each in pytestconfig.pluginmanager.get_plugins() if hasattr(each, "keep_logging"))
    given = {name: pytestconfig.getoption(name) for name in ("--device", "--precision", "--attacks")}
    items = [MagicMock(get_closest_marker=lambda name: name == "attack")]
    hooks.pytest_collection_modifyitems(MagicMock(getoption=(given | {"--attacks": asked}).get), items)
    assert len(items) == asked


def test_files_name_no_machine_and_no_package_index():
    machine = r"(?<![\w.$}/~-])/(work|root|home|opt|Users)/\w"
    index = r"p[y]pi\.|[-]-(extra-)?index-url|[-]-find-links"  # the brackets keep this line from finding itself
    found = run("git", "grep", "--untracked", "-nIP", f"{machine}|{index}", cwd=ROOT, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (1, "", "")
