"""The code that runs: the commit of this checkout, and a hash of the package."""

from __future__ import annotations

import hashlib
import subprocess

from experiments.recipes.recipe import ROOT, USER_DIR


def _git(*args: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=True).stdout.strip()


def commit() -> str:
    """Return the present commit, with '+dirty' where files other than results differ from it; 'none' outside git."""
    try:
        changed = _git("status", "--porcelain", "--", ".", ":(exclude)results")
        return _git("rev-parse", "--short=10", "HEAD") + ("+dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "none"


def package() -> str:
    """Return a hash of the package's present sources, also without git."""
    digest = hashlib.sha256()
    for path in sorted(USER_DIR.rglob("*.py")):
        digest.update(str(path.relative_to(USER_DIR)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:10]
