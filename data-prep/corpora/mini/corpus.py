"""Writes a small corpus in the format of a real one's source, for trying its preparation and a whole table.

    python data-prep/mini_corpus.py NAME FOLDER

NAME is the name of a recipe's data. The files have the names and the raw format of the preparation's --local; their
text is generated.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from corpora.errors import as_status
from corpora.mini import asian, news, translation, trees


def known_corpora() -> dict[str, Callable[[Path], None]]:
    """Return name → function that writes this corpus into a folder."""
    return {**asian.CORPORA, **news.CORPORA, **translation.CORPORA, **trees.CORPORA}


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = known_corpora()
    parser.add_argument("name", choices=sorted(known))
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    known[args.name](args.folder)
