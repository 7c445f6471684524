"""The package, its requirements and its set-up script are what they say, and --user-dir works from anywhere."""

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fairseq_localattn
from fairseq_localattn.__main__ import architectures, main
from fairseq_localattn.models.architectures import localattn_architectures

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
    assert (about.get("License") or about.get("License-Expression")) == "MIT"
    assert "3.11" in about["Requires-Python"]
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


def test_every_requirement_says_why():
    lines = (REPO / "setup.py").read_text().splitlines()
    start, end = lines.index("REQUIRES = ["), lines.index("]")
    entries = [i for i in range(start + 1, end) if not lines[i].lstrip().startswith("#")]
    assert len(entries) >= 5
    assert all(lines[i - 1].lstrip().startswith("# ") for i in entries)


def test_main_prints_the_path_and_the_architectures(tmp_path):
    done = run(sys.executable, "-m", "fairseq_localattn", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert Path(lines[0]).is_absolute() and Path(lines[0]).samefile(PACKAGE)
    rows = architectures()
    assert {arch: model for arch, model, _ in rows} == localattn_architectures()
    assert {"transformer_mma", "transformer_csan"} <= {arch for arch, _, _ in rows}
    for arch, model, paper in rows:
        assert any(line.split()[:2] == [arch, model] and paper in line for line in lines), arch
        assert paper, f"the module of {model} does not name its paper"


def test_main_prints_the_path_alone_for_scripts(capsys):
    main(["--path"])
    assert capsys.readouterr().out == f"{PACKAGE}\n"


def import_user_dir(user_dir: object, cwd: Path, before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"""
import argparse, sys
{before}
from fairseq import utils
from fairseq.models import ARCH_MODEL_REGISTRY
utils.import_user_module(argparse.Namespace(user_dir={str(user_dir)!r}))
print(sys.modules["fairseq_localattn"].__file__, "transformer_mma" in ARCH_MODEL_REGISTRY)
"""
    return run(sys.executable, "-P", "-c", code, cwd=cwd)


def test_user_dir_by_name_in_the_checkout():
    assert import_user_dir("fairseq_localattn", REPO).stdout.split() == [str(PACKAGE / "__init__.py"), "True"]


def test_user_dir_after_the_package_was_imported(tmp_path):
    """fairseq calls two copies of one module "not globally unique"; the installed package must be the checkout's."""
    done = import_user_dir(os.path.relpath(PACKAGE, tmp_path), tmp_path, before="import fairseq_localattn")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(PACKAGE / "__init__.py"), "True"]


def test_user_dir_at_a_copy_uses_the_copy(tmp_path):
    copy = tmp_path / "fairseq_localattn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    assert import_user_dir(copy, tmp_path).stdout.split() == [str(copy / "__init__.py"), "True"]


def test_user_dir_of_a_command_in_another_directory(tmp_path):
    args = ["--user-dir", os.path.relpath(PACKAGE, tmp_path), "--arch", "no_such_architecture"]
    done = run(BIN / "fairseq-train", *args, cwd=tmp_path)
    assert done.returncode == 2 and "invalid choice: 'no_such_architecture'" in done.stderr
    for arch, _, _ in architectures():  # argparse lists the choices
        assert re.search(rf"\b{arch}\b", done.stderr)


# The set-up script. That it really sets up is shown by every run of the tests; here is what it refuses.


def set_up(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    return run(REPO / "scripts" / "setup.sh", *args, **env)


def test_setup_explains_itself():
    assert "LOCALATTN_VENV" in set_up("--help").stdout
    wrong = set_up("--fast")
    assert wrong.returncode == 2 and "unknown argument '--fast'" in wrong.stderr


@pytest.mark.parametrize("python", ["/nowhere/python", "false"])
def test_setup_refuses_an_interpreter_that_does_not_run(python, tmp_path):
    done = set_up(PYTHON=python, LOCALATTN_VENV=str(tmp_path / "venv"))
    assert done.returncode == 1
    assert f"PYTHON={python} is not a working Python 3.11 or 3.12" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_setup_does_not_touch_a_directory_that_is_no_environment(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    done = set_up(LOCALATTN_VENV=str(tmp_path))
    assert done.returncode == 1 and "is no virtual environment" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("script", ["setup.sh", "test.sh"])
def test_a_relative_environment_is_relative_to_the_repository(script, tmp_path):
    """From any directory. (This one holds something else, so that nothing is set up here.)"""
    done = run(REPO / "scripts" / script, cwd=tmp_path, LOCALATTN_VENV="tests")
    assert done.returncode == 1 and f"{REPO / 'tests'} is there and is no virtual environment" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("script", ["scripts/setup.sh", "scripts/test.sh", ".ci/run"])
def test_scripts_are_executable_and_stop_at_the_first_error(script):
    assert os.access(REPO / script, os.X_OK)
    assert "\nset -euo pipefail\n" in (REPO / script).read_text()
    assert run("bash", "-n", REPO / script).returncode == 0


def test_files_name_no_machine_and_no_package_index():
    """Nothing in the repository depends on where it was written: no absolute path of a machine, no package index."""
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
