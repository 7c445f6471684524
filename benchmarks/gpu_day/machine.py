"""The machine of a GPU day: what its Python has, what is installed from a packed folder, and what the GPU is.

This module is read before fairseq is installed, so nothing that it imports may need fairseq or torch.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from experiments.recipes.nodes import RecipeError
from experiments.recipes.recipe import ROOT

# Modules that a packed folder brings, by the names of their distributions.
PACKED = {
    "fairseq-fixed": "fairseq",
    "antlr4-python3-runtime": "antlr4",
    "bitarray": "bitarray",
    "hydra-core": "hydra",
    "omegaconf": "omegaconf",
    "sacremoses": "sacremoses",
    "subword-nmt": "subword_nmt",
}
SOURCES = ("fairseq-fixed", "antlr4-python3-runtime")  # published as sources alone, and built on the machine
BUILDERS = ("setuptools", "wheel")  # what builds them, in the versions of constraints.txt
# Modules that the machine must have itself: torch, and what every installation for machine learning has.
OWN = "torch numpy scipy yaml tqdm regex sacrebleu Cython matplotlib pytest xdist hypothesis".split()
PACKAGE = "fairseq_localattn"
CHECK = f"import torch, fairseq, {PACKAGE}"
WHEELS, DATA, COMMIT = "packages", "data", "commit.txt"  # in a packed folder


class CourseError(RecipeError):
    """Raised for what a user can mend, with one line that says so."""


def lacking(modules: Iterable[str]) -> list[str]:
    """Return the modules that this interpreter does not find."""
    return [module for module in modules if importlib.util.find_spec(module) is None]


def make_ready(packed: Path | None, device: str, log: Path) -> str:
    """Check the machine, install what is missing from a packed folder, and return the machine in words.

    Raises CourseError.
    """
    if missing := lacking(OWN):
        raise CourseError(f"{sys.executable} lacks {', '.join(missing)}: install them, or choose another by PYTHON=…")
    if missing := lacking(PACKED.values()):
        if packed is None:
            raise CourseError(
                f"{sys.executable} lacks {', '.join(missing)}: run scripts/setup.sh, or without network give "
                "--from DIR, a folder made by benchmarks/gpu_day.sh --pack DIR"
            )
        install(packed, [name for name, module in PACKED.items() if module in missing], log)
    said = run([sys.executable, "-c", f"{CHECK}; print(torch.__version__)"], log)
    if said is None:
        raise CourseError(f"{sys.executable} cannot import torch, fairseq and {PACKAGE}: see the end of {log}")
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise CourseError(
            f"torch {torch.__version__} sees no GPU; --device cpu --size tiny goes through the whole course without one"
        )
    name = torch.cuda.get_device_name(0) if device == "cuda" else "CPU"
    if device == "cuda":
        name += f", {torch.cuda.get_device_properties(0).total_memory / 2**30:.0f} GiB"
    return f"{name}; Python {sys.version.split()[0]}, torch {torch.__version__}"


def install(packed: Path, names: Iterable[str], log: Path) -> None:
    """Install distributions, and this package from its checkout, without network. Raises CourseError."""
    folder = packed / WHEELS
    files = [file_of(folder, name) for name in names]
    with tempfile.TemporaryDirectory() as builders:
        for name in BUILDERS:  # beside the interpreter's own, which stay as they are
            with zipfile.ZipFile(file_of(folder, name)) as wheel:
                wheel.extractall(builders)
        # fairseq builds CUDA extensions that it does not need when CUDA_HOME is set, and its few others fast so.
        environment = {key: value for key, value in os.environ.items() if key != "CUDA_HOME"}
        environment |= {
            "CFLAGS": "-O1 -g0",
            "PYTHONPATH": os.pathsep.join([builders, os.environ.get("PYTHONPATH", "")]),
        }
        pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation"]
        pip += ["--no-cache-dir", "--disable-pip-version-check"]
        for words in ([str(file) for file in files], [] if has_package() else ["--editable", str(ROOT)]):
            if words and run([*pip, *words], log, environment) is None:
                raise CourseError(f"pip install from {folder} failed: see the end of {log}")
    importlib.invalidate_caches()


def has_package() -> bool:
    """Return whether this package is installed, and not only found in its checkout."""
    try:
        importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def file_of(folder: Path, name: str) -> Path:
    """Return the file of a distribution in a folder. Raises CourseError without exactly one."""
    # File names have _ where names of distributions have -.
    found = [path for path in sorted(folder.glob("*")) if path.name.lower().replace("_", "-").startswith(f"{name}-")]
    if len(found) != 1:
        what = "no file" if not found else f"{len(found)} files"
        raise CourseError(f"{folder}: has {what} of {name}: make the folder anew by benchmarks/gpu_day.sh --pack")
    return found[0]


def run(argv: list[str], log: Path, environment: dict[str, str] | None = None) -> str | None:
    """Run a command with its output appended to a log; return the output, or None if it failed."""
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"### {' '.join(argv)}\n{done.stdout}\n")
    return done.stdout if done.returncode == 0 else None


def take_data(packed: Path, folder: Path) -> None:
    """Copy the prepared corpora of a packed folder to where a table's trainings look for them. What is there stays."""
    for corpus in sorted((packed / DATA).iterdir()):
        place = folder / "data" / corpus.name
        if not place.is_dir():
            part = place.with_name(f"{corpus.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(corpus, part)
            part.rename(place)
