"""Makes the tables of README.md, docs/ and results/*.md from the CSVs of results/ and from configs/.

    python results/make_tables.py            # rewrites the tables in place
    python results/make_tables.py --check    # says which differ, and exits with 1

A table stands between two lines, and nothing else of a page is touched:

    <!-- table NAME -->
    <!-- end of table NAME -->

NAME is `summary` (a row of each paper), `ranking` (all mechanisms by score), `sample` (the same at that scale), `speed`
and `attentions` (fairseq's own against ours), a paper (man: all its tables, measured or not), one of its tables
(man/table1), locality/NAME or claims/PAPER. results/claims.csv has all comparisons of the claims.

A picture of gains that a page shows, figures/gains_NAME.png, is drawn where it shows other numbers than the CSVs.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from experiments.measure.generated import ScoreError
from experiments.recipes.nodes import nearest
from experiments.recipes.tables import papers, tables_of
from experiments.report.claims import claims_csv, claims_table
from experiments.report.gains import RANKED, RANKINGS, draw, is_drawn, picture, tables_shown
from experiments.report.locality import locality_table
from experiments.report.papers import all_tables, ranking_table, summary_table, table_of_paper
from experiments.report.speed import attentions_table, speed_table
from experiments.system.checkout import ROOT
from fairseq_localattn.errors import UsageError
from fairseq_localattn.files import write_whole

MARKER = re.compile(r"^[ \t]*<!--.*\btable\b", re.M)
BLOCK = re.compile(
    r"^<!-- table (?P<name>\S+) -->\n(?P<old>(?:(?!<!--).*\n)*)(?P<end><!-- end of table (?P=name) -->)$", re.M
)
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


def pages(root: Path) -> list[Path]:
    """Return the pages that may have tables."""
    others = "README.md", "docs/performance.md"
    found = *(root / name for name in others), *sorted((root / "results").glob("*.md"))
    return [path for path in found if path.is_file()]


def blocks_of(page: Path, text: str) -> list[re.Match[str]]:
    """Return the tables of a page, NAME and what stands between the markers. Raises ScoreError for a wrong marker."""
    blocks = list(BLOCK.finditer(text))
    right = {block.start() for block in blocks} | {block.start("end") for block in blocks}
    for found in MARKER.finditer(text):
        if found.start() not in right:
            needs = "write '<!-- table NAME -->' and '<!-- end of table NAME -->', each on a line of its own"
            raise ScoreError(f"{page}:{_line(text, found.start())}: not one of two markers of a table: {needs}")
    return blocks


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


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
    return [*OF_ALL, *_papers(root), *needed(root)]


def needed(root: Path) -> dict[str, str]:
    """Return the tables that must stand on some page, and where their rows are. ScoreError for results without rows.

    They are those of the papers, and of the analyses that have been measured.
    """
    found: dict[str, str] = {}
    for paper in _papers(root):
        folder = root / "configs" / paper
        tables = tables_of(paper, folder.parent)
        for path in sorted((root / "results" / paper).glob("*.csv")):
            if path.stem not in tables:
                raise ScoreError(f"{path}: {folder} has no table {path.stem}")
        found |= {f"{paper}/{table}": str(folder / f"{table}.yaml") for table in tables}
    for kind in ANALYSES:
        files = sorted((root / "results" / kind).glob("*"))
        found |= {f"{kind}/{path.stem}": str(path) for path in files if path.suffix in (".csv", ".yaml")}
    return found


def _papers(root: Path) -> list[str]:
    return [paper for paper in papers(root / "configs") if paper not in NO_PAGES]


def renew(root: Path, page: Path) -> tuple[str, list[str], list[str]]:
    """Return a page with its tables made anew, the names of its tables, and 'file:line: table' of those that differ."""
    text, differ = page.read_text(encoding="utf-8"), []

    def made(block: re.Match[str]) -> str:
        name, first = block["name"], _line(text, block.start())
        new = f"\n{table(root, name, f'{page}:{first}')}\n\n"  # blank lines: else Markdown takes it for text
        if block["old"] != new:
            same = os.path.commonprefix([block["old"].split("\n"), new.split("\n")])
            differ.append(f"{page}:{first + 1 + len(same)}: table {name}")
        return f"<!-- table {name} -->\n{new}{block['end']}"

    names = [block["name"] for block in blocks_of(page, text)]
    return BLOCK.sub(made, text), names, differ


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
    drawn = {table for name in {*RANKED, *RANKINGS} & {*pictures} for table in tables_shown(root, name)}
    for name, where in needed(root).items():
        if name not in shown and name.partition("/")[0] not in shown and name not in drawn:
            raise ScoreError(f"{where}: no page has it: put its two markers, table {name}, into results/*.md")
    if (root / "results" / "claims").is_dir():
        claims, text = root / "results" / "claims.csv", claims_csv(root)
        shown.append(claims.name)
        if not claims.is_file() or claims.read_text(encoding="utf-8") != text:
            texts[claims] = text
            differ.append(f"{claims}: table {claims.name}")
    if check:
        for place in [*differ, *(picture(root, name) for name in outdated)]:
            print(f"make_tables: {place} is not what the results say: python results/make_tables.py", file=sys.stderr)
        return 1 if differ or outdated else 0
    for path, text in texts.items():
        write_whole(path, text)
    for name in outdated:
        draw(root, name)
    renewed = [place.rpartition(": table ")[2] for place in differ]
    print(f"{len(renewed)} of {len(shown)} tables renewed" + (f": {', '.join(renewed)}" if renewed else ""))
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
