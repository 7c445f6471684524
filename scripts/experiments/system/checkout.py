"""The code that runs: the folder and the commit of this checkout, and a hash of the package."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from experiments.system.processes import read_stamp

ROOT = Path(__file__).resolve().parents[3]
USER_DIR = ROOT / "fairseq_localattn"
CODE = "started.json"  # a run's stamp with the code that has run
UNKNOWN = {"commit": "unknown", "package": ""}  # where that stamp is damaged


def _git(*args: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=True).stdout.strip()


def commit() -> str:
    """Return the present commit, with '+dirty' where files other than results differ from it.

    Outside git it is what $LOCALATTN_COMMIT says, or 'none'.
    """
    try:
        changed = _git("status", "--porcelain", "--", ".", ":(exclude)results")
        return _git("rev-parse", "--short=10", "HEAD") + ("+dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("LOCALATTN_COMMIT", "none")


def package() -> str:
    """Return a hash of the package's present sources, also without git."""
    digest = hashlib.sha256()
    for path in sorted(USER_DIR.rglob("*.py")):
        digest.update(str(path.relative_to(USER_DIR)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:10]


def code_of(folder: Path) -> list[dict[str, str]]:
    """Return commit and package of each part of the run in a folder, in order; neighbours differ."""
    if not (folder / CODE).exists():
        return []
    parts: Any = (read_stamp(folder / CODE) or {}).get("code")
    known = isinstance(parts, list) and [isinstance(part, dict) and part.keys() >= UNKNOWN.keys() for part in parts]
    return parts if known and all(known) else [UNKNOWN]


@functools.cache
def same_package(commits: str) -> bool:
    """Return whether the package at these commits ('a' or 'a..b', as results name them) is the present one.

    False also where that cannot be told: a checkout with changes, or a commit that is not here.
    """
    for name in commits.split(".."):
        if not re.fullmatch("[0-9a-f]{7,40}", name):
            return False
        try:
            _git("diff", "--quiet", name, "--", str(USER_DIR))
        except (OSError, subprocess.CalledProcessError):
            return False
    return True
