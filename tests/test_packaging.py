"""The package's metadata, requirements and wheel, the set-up script, and --user-dir from anywhere."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import fairseq_localattn
from fairseq_localattn.__main__ import architectures
from fairseq_localattn.models.architectures import localattn_architectures, plain_architectures

PACKAGE = Path(fairseq_localattn.__file__).parent
REPO = PACKAGE.parent
BIN = Path(sys.executable).parent

if not (REPO / "setup.py").exists():
    pytest.skip("not run from a checkout", allow_module_level=True)


def run(*args: object, cwd: Path = REPO, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **env}
    return subprocess.run([*map(str, args)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def test_metadata():
    about = metadata.metadata("fairseq_localattn")
    assert about["Version"] == fairseq_localattn.__version__
    assert about.json.get("license", about.json.get("license_expression")) == "MIT"
    supported = SpecifierSet(about["Requires-Python"])
    minors = [minor for minor in range(9, 20) if f"3.{minor}" in supported]
    assert minors == [11, 12, 13]
    stated = [line.rsplit(" ", 1)[1] for line in about.get_all("Classifier") or []]
    assert stated == [f"3.{minor}" for minor in minors]
    script = (REPO / "scripts/setup.sh").read_text()
    assert "python3.11 python3.12 python3.13 python3;" in script
    assert "(3, 11) <= sys.version_info[:2] <= (3, 13)" in script
    assert (REPO / "LICENSE").read_text().startswith("MIT License")


def requirements() -> list[Requirement]:
    return [Requirement(line) for line in metadata.requires("fairseq_localattn") or []]


def constraints() -> dict[str, Requirement]:
    lines = (REPO / "constraints.txt").read_text().splitlines()
    parsed = [Requirement(line) for line in lines if line and not line.startswith("#")]
    names = [canonicalize_name(requirement.name) for requirement in parsed]
    assert len(names) == len(set(names)), "a package is pinned twice"
    return dict(zip(names, parsed, strict=True))


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_every_requirement_has_a_range_and_a_pin_inside_it(requirement):
    assert requirement.specifier, "no range"
    pin = str(constraints()[canonicalize_name(requirement.name)].specifier)
    assert pin.startswith("==")
    assert requirement.specifier.contains(pin.removeprefix("=="))


@pytest.mark.slow
def test_main_prints_the_path_and_the_architectures(tmp_path):
    done = run(sys.executable, "-m", "fairseq_localattn", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert Path(lines[0]).is_absolute() and Path(lines[0]).samefile(PACKAGE)
    rows = architectures()
    assert {arch: model for arch, model, _ in rows} == localattn_architectures() | plain_architectures()
    assert {"transformer_mma", "transformer_localattn_small"} <= {arch for arch, _, _ in rows}
    assert all(len(line) <= 100 for line in lines[1:])
    listed = set()
    for block in done.stdout.split("\n\n")[2:]:
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
utils.import_user_module(argparse.Namespace(user_dir={os.path.relpath(PACKAGE, tmp_path)!r}))
print(sys.modules["fairseq_localattn"].__file__)
"""
    done = run(sys.executable, "-P", "-c", code, cwd=tmp_path)
    assert done.stdout.strip() == str(PACKAGE / "__init__.py"), done.stderr


@pytest.mark.slow
def test_the_release_holds_every_module_and_works_as_user_dir(tmp_path):
    """The wheel is built from the sdist and installed into a new environment; torch and fairseq are those here."""
    source, built, fresh = tmp_path / "source", tmp_path / "built", tmp_path / "fresh"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "build", "results")
    shutil.copytree(REPO, source, ignore=ignored)
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(built)!r})"
    done = run(sys.executable, "-c", code, cwd=source)
    assert done.returncode == 0, done.stderr
    (sdist,) = built.iterdir()
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    done = run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", built, sdist)
    assert done.returncode == 0, done.stderr
    (wheel,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = source / "fairseq_localattn"
    files = [*package.rglob("*.py"), package / "analysis" / "heatmap" / "page.html"]
    assert names == {str(path.relative_to(source)) for path in files}

    assert run(sys.executable, "-m", "venv", "--without-pip", fresh).returncode == 0
    python = fresh / "bin" / "python"
    done = run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stderr
    (site,) = fresh.glob("lib/python*/site-packages")
    (site / "here.pth").write_text(f"{metadata.distribution('torch').locate_file('')}\n")
    module = [python, "-m", "fairseq_localattn"]
    assert run(*module, "--version", cwd=tmp_path).stdout.split()[-1] == fairseq_localattn.__version__
    path = run(*module, "--path", cwd=tmp_path).stdout.strip()
    assert path == str(site / "fairseq_localattn")
    args = ["--user-dir", path, "--arch", "transformer_csam_tiny"]
    done = run(python, "-m", "fairseq_cli.train", *args, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.endswith("; did you mean transformer_csan_tiny?\n")


# The set-up script. Every run of scripts/test.sh shows that it sets up; the tests show what it refuses.


def set_up(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    return run(REPO / "scripts" / "setup.sh", *args, cwd=REPO, **env)


def test_setup_explains_itself():
    assert "LOCALATTN_VENV" in set_up("--help").stdout
    wrong = set_up("--fast")
    assert wrong.returncode == 2 and "unknown argument '--fast'" in wrong.stderr


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ("--quick -x", "-m not slow -x"),
        ("--attacks -x", "--attacks tests/attacks -x"),
    ],
)
def test_the_lanes_of_the_test_script(given, chosen, tmp_path):
    """The script in a repository where setting up does nothing, and Python prints its arguments."""
    for name, text in (("scripts/setup.sh", "exit 0"), (".venv/bin/python", 'echo "$*"')):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{text}\n")
        path.chmod(0o755)
    shutil.copy(REPO / "scripts" / "test.sh", tmp_path / "scripts")
    done = run(tmp_path / "scripts" / "test.sh", *given.split(), LOCALATTN_VENV="", LOCALATTN_TEST_WORKERS="2")
    wanted = " ".join(f"-m pytest --numprocesses 2 --dist loadgroup {chosen}".split())
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == wanted, done.stderr


def test_long_attacks_run_on_request_only(request):
    """By any way to start pytest; tests/conftest.py leaves them out."""
    hooks = next(each for each in request.config.pluginmanager.get_plugins() if hasattr(each, "keep_logging"))
    ordinary, attack = (SimpleNamespace(get_closest_marker=lambda name, own=own: name == own) for own in ("", "attack"))
    for asked, kept in ((False, [ordinary]), (True, [ordinary, attack])):
        items = [ordinary, attack]
        config = SimpleNamespace(getoption=lambda name, asked=asked: asked, hook=Mock(), pluginmanager=Mock())
        config.pluginmanager.hasplugin.return_value = False
        hooks.pytest_collection_modifyitems(config, items)
        assert items == kept
    parser = argparse.ArgumentParser()
    hooks.pytest_addoption(SimpleNamespace(addoption=parser.add_argument))
    assert not parser.parse_args([]).attacks and parser.parse_args(["--attacks"]).attacks


def test_setup_refuses_an_interpreter_that_does_not_run(tmp_path):
    done = set_up(PYTHON="false", LOCALATTN_VENV=str(tmp_path / "venv"))
    assert done.returncode == 1
    assert "PYTHON=false is not a working Python 3.11, 3.12 or 3.13" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_setup_does_not_touch_a_directory_that_is_no_environment(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    done = set_up(LOCALATTN_VENV=str(tmp_path))
    assert done.returncode == 1 and "is no virtual environment" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("script", ["setup.sh", "test.sh"])
def test_a_relative_environment_is_relative_to_the_repository(script, tmp_path):
    """From any directory. The folder is no environment, so that nothing is set up."""
    done = run(REPO / "scripts" / script, cwd=tmp_path, LOCALATTN_VENV="tests")
    assert done.returncode == 1 and f"{REPO / 'tests'} is there and is no virtual environment" in done.stderr
    assert not list(tmp_path.iterdir())


def test_files_name_no_machine_and_no_package_index():
    """No absolute path of a machine and no package index stands in any file of the repository."""
    if shutil.which("git") is None or not (REPO / ".git").exists():
        pytest.skip("no git checkout")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z").stdout.split("\0")
    machine = r"(?<![\w.$}/~-])/(work|root|home|opt|Users)/\w"
    index = r"p[y]pi\.|[-]-(extra-)?index-url|[-]-find-links"  # the brackets keep this line from finding itself
    suspect = re.compile(f"{machine}|{index}")
    found = []
    for name in filter(None, listed):
        path = REPO / name
        if not path.is_file() or path.stat().st_size > 1_000_000:
            continue
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
            if suspect.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)
