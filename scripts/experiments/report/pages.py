"""Makes the tables of README.md, docs/ and results/*.md from the CSVs of results/ and from configs/.

    python results/make_tables.py            # rewrites the tables in place
    python results/make_tables.py --check    # says which differ, and exits with 1

A table stands between two lines, and nothing else of a page is touched:

    <!-- table NAME -->
    <!-- end of table NAME -->

NAME is `summary` (a row of each paper), `ranking` (all mechanisms by score), `sample` (the same at that scale), `speed`
and `attentions` (fairseq's own against ours), a paper (man: all its tables, measured or not), one of its tables
(man/table1), locality/NAME or claims/PAPER.

A picture of gains that a page shows, figures/gains_NAME.png, is drawn where it shows other numbers than the CSVs.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from experiments.measure.generated import ScoreError
from experiments.recipes.nodes import nearest
from experiments.recipes.tables import papers, tables_of
from experiments.report.claims import claims_table
from experiments.report.gains import RANKED, draw, is_drawn, picture, tables_shown
from experiments.report.locality import locality_table
from experiments.report.papers import all_tables, summary_table, table_of_paper
from experiments.report.ranking import ranking_table
from experiments.report.speed import attentions_table, speed_table
from experiments.system.checkout import ROOT
from fairseq_localattn.errors import UsageError
from fairseq_localattn.files import write_whole

MARKER = re.compile(r"<!-- (?P<end>end of )?table (?P<name>\S+) -->")
GAINS = re.compile(r"figures/gains_(\w+)\.png")
NO_PAGES = ("quickstart",)  # its numbers stay with its runs
OF_ALL: dict[str, Callable[[Path], str]] = {
    "summary": summary_table,
    "ranking": ranking_table,
    "sample": functools.partial(ranking_table, scale="sample"),
    "speed": speed_table,
    "attentions": attentions_table,
}
ANALYSES = {"locality": locality_table, "claims": claims_table}


@dataclass(frozen=True)
class Block:
    """A table on a page: the lines between those of its two markers, ``first`` and ``last``, counted from 0."""

    name: str
    first: int
    last: int


def pages(root: Path) -> list[Path]:
    """Return the pages that may have tables."""
    others = "README.md", "docs/performance.md"
    found = *(root / name for name in others), *sorted((root / "results").glob("*.md"))
    return [path for path in found if path.is_file()]


def blocks_of(page: Path, lines: list[str]) -> list[Block]:
    """Return the tables of a page. Raises ScoreError for a marker without its other half, or with a slip in it."""
    blocks: list[Block] = []
    begun: tuple[str, int] | None = None
    for i, line in enumerate(lines):
        found = MARKER.fullmatch(line.rstrip())
        if found is None:
            if re.match(r"\s*<!--.*\btable\b", line):
                raise ScoreError(
                    f"{page}:{i + 1}: not a marker: write '<!-- table NAME -->', from the line's beginning"
                )
            continue
        name = found["name"]
        if not found["end"]:
            if begun is not None:
                raise ScoreError(f"{page}:{i + 1}: table {name} begins before '<!-- end of table {begun[0]} -->'")
            begun = (name, i)
        elif begun is None or begun[0] != name:
            raise ScoreError(f"{page}:{i + 1}: table {name} ends here, but does not begin before")
        else:
            blocks.append(Block(name, begun[1], i))
            begun = None
    if begun is not None:
        raise ScoreError(f"{page}:{begun[1] + 1}: table {begun[0]} has no line '<!-- end of table {begun[0]} -->'")
    return blocks


def table(root: Path, name: str, where: str) -> str:
    """Return the text of a table. Raises ScoreError, at ``where``, for an unknown name."""
    known = names(root)
    if name not in known:
        raise ScoreError(f"{where}: there is no table {name!r}{nearest(name, known)}")
    kind, _, rest = name.partition("/")
    if name in OF_ALL:
        return OF_ALL[name](root)
    if kind in ANALYSES:
        return ANALYSES[kind](root, rest)
    return table_of_paper(root, kind, rest) if rest else all_tables(root, kind)


def names(root: Path) -> list[str]:
    """Return all tables that can be asked for."""
    configs, found = root / "configs", list(OF_ALL)
    for paper in papers(configs):
        found += [paper, *(f"{paper}/{table}" for table in tables_of(paper, configs))]
    for kind in ANALYSES:
        found += [f"{kind}/{path.stem}" for path in _files(root, kind)]
    return found


def _files(root: Path, kind: str) -> list[Path]:
    """Return the files of an analysis, a table each."""
    return sorted((root / "results" / kind).glob("*.yaml" if kind == "claims" else "*.csv"))


def needed(root: Path) -> dict[str, str]:
    """Return the tables that must stand on some page, and where their rows are. ScoreError for results without rows.

    They are those of the papers, and of the analyses that have been measured.
    """
    configs = root / "configs"
    found: dict[str, str] = {}
    for paper in papers(configs):
        tables = tables_of(paper, configs)
        for path in sorted((root / "results" / paper).glob("*.csv")):
            if path.stem not in tables:
                raise ScoreError(f"{path}: {configs / paper} has no table {path.stem}")
        if paper not in NO_PAGES:
            found |= {f"{paper}/{table}": str(configs / paper / f"{table}.yaml") for table in tables}
    for kind in ANALYSES:
        found |= {f"{kind}/{path.stem}": str(path) for path in _files(root, kind)}
    return found


def renew(root: Path, page: Path) -> tuple[str, list[str], list[str]]:
    """Return a page with its tables made anew, the names of its tables, and 'file:line: table' of those that differ."""
    lines = page.read_text(encoding="utf-8").split("\n")
    blocks, renewed, differ, at = blocks_of(page, lines), [], [], 0
    for block in blocks:
        where = f"{page}:{block.first + 1}"
        new = ["", *table(root, block.name, where).split("\n"), ""]  # blank lines: else Markdown takes it for text
        old = lines[block.first + 1 : block.last]
        if old != new:
            line = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
            differ.append(f"{page}:{block.first + 2 + line}: table {block.name}")
        renewed += [*lines[at : block.first + 1], *new]
        at = block.last
    return "\n".join([*renewed, *lines[at:]]), [block.name for block in blocks], differ


def make(root: Path, check: bool) -> int:
    """Write all pages anew once all tables are made, or say what differs; return the exit status."""
    texts: dict[Path, str] = {}
    shown: list[str] = []
    differ: list[str] = []
    for page in pages(root):
        text, found, wrong = renew(root, page)
        shown += found
        differ += wrong
        if wrong:
            texts[page] = text
    pictures = sorted({name for page in pages(root) for name in GAINS.findall(page.read_text(encoding="utf-8"))})
    outdated = [name for name in pictures if not is_drawn(root, name)]
    drawn = {table for name in RANKED.keys() & pictures for table in tables_shown(root, name)}
    for name, where in needed(root).items():
        if name not in shown and name.partition("/")[0] not in shown and name not in drawn:
            raise ScoreError(f"{where}: no page has it: put its two markers, table {name}, into results/*.md")
    if check:
        for place in differ:
            print(f"make_tables: {place} is not what the results say: python results/make_tables.py", file=sys.stderr)
        for name in outdated:
            said = "shows other numbers than the results: python results/make_tables.py"
            print(f"make_tables: {picture(root, name)} {said}", file=sys.stderr)
        return 1 if differ or outdated else 0
    for page, text in texts.items():
        write_whole(page, text)
    for name in outdated:
        draw(root, name)
    renewed = ", ".join(place.rpartition(": table ")[2] for place in differ)
    print(f"{len(differ)} of {len(shown)} tables renewed{renewed and ': '}{renewed}")
    if outdated:
        print(f"{len(outdated)} of {len(pictures)} pictures drawn: {', '.join(outdated)}")
    return 0


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(
        prog="make_tables", description="Makes the pages' tables from the CSVs of results/"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a table differs")
    args = parser.parse_args(argv)
    try:
        return make(root, args.check)
    except (UsageError, OSError) as error:
        print(f"make_tables: error: {error}", file=sys.stderr)
        return 2
