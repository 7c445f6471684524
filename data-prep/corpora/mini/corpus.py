"""Writes a small corpus in the format of a real one's source, for trying its preparation and a whole table.

    python data-prep/mini_corpus.py NAME FOLDER

NAME is the name of a recipe's data. The files have the names and the raw format of the preparation's --local; their
text is generated. The corpora are those of the dictionaries CORPORA in this package.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

import corpora.mini
from corpora.errors import as_status


def known_corpora() -> dict[str, Callable[[Path], None]]:
    """Return name → function that writes this corpus into a folder, of all modules in this package."""
    found: dict[str, Callable[[Path], None]] = {}
    for module in pkgutil.iter_modules(corpora.mini.__path__):
        found.update(getattr(importlib.import_module(f"corpora.mini.{module.name}"), "CORPORA", {}))
    return found


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = known_corpora()
    parser.add_argument("name", choices=sorted(known))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    known[args.name](args.folder)
