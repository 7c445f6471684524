"""Writes a small corpus in the format of a real one's source, to try its preparation and a whole table on.

    python data-prep/mini_corpus.py NAME FOLDER

NAME is that of a recipe's data. The files have the names and the raw format that the preparation's --local takes; their
text is made by code. Each mini_*.py beside this file has such corpora.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from parallel import as_status


def corpora() -> dict[str, Callable[[Path], None]]:
    """Name → function that writes that corpus into a folder, of all mini_*.py."""
    here = Path(__file__).resolve()
    found: dict[str, Callable[[Path], None]] = {}
    for path in sorted(here.parent.glob("mini_*.py")):
        if path != here:
            found.update(importlib.import_module(path.stem).CORPORA)
    return found


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = corpora()
    parser.add_argument("name", choices=sorted(known))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    known[args.name](args.folder)


if __name__ == "__main__":
    sys.exit(main())
