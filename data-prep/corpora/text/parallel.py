"""Checks small parallel text before anything is built on it, and writes it as plain UTF-8 files.

    python -m corpora.text.parallel pair train.de.gz train.en.gz [--manifest FILE] [--write train.de train.en]
    python -m corpora.text.parallel trees train.en train.en.tree

`pair` refuses a missing file, a checksum or line count that differs from the manifest, a cut-off file, invalid UTF-8,
an empty line, a NUL, files of different length, misaligned lines, and separators of lines inside of a line, which of a
text in the manifest become spaces; `trees` refuses a tree whose leaves are not the tokens of its line. Each error is
one line that names file and line, with exit status 1, and nothing is written. Files are plain or .gz, and held in
memory.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

from corpora.errors import DataError, as_status
from corpora.text.alignment import MIN_SMALL_CORRELATION, SMALL_BLOCK, misaligned_at
from corpora.text.lines import decode_text, own_words, read_bytes, write_lines

Manifest = dict[str, tuple[str, int]]  # file name without .gz → sha256 of the plain file, number of lines

_LEAF = re.compile(r" ([^\s()]+)\)")


def read_lines(path: Path, lines: int | None = None, sha256: str | None = None) -> list[str]:
    """Return the lines of a text file or a gzip file, without their newlines.

    lines, sha256: expected number of lines and checksum of the uncompressed bytes; None: not checked. Text with a
    checksum is official: separators of lines inside of its lines become spaces.
    Raises DataError for a missing, cut-off or otherwise unusable file.
    """
    data = [line for _, line in read_bytes(path)]
    if lines is not None and len(data) != lines:
        place = min(len(data), lines) + 1
        raise DataError(f"{path}:{place}: expected {lines} lines, found {len(data)}; get the file again")
    if sha256 is not None:
        found = hashlib.sha256(b"".join(line + b"\n" for line in data)).hexdigest()
        if found != sha256:
            raise DataError(f"{path}: wrong checksum: expected sha256 {sha256}, found {found}; get the file again")
    return [decode_text(path, number, line, official=sha256 is not None) for number, line in enumerate(data, 1)]


def read_manifest(path: Path) -> Manifest:
    """Return the manifest in a file of lines "sha256 lines name"."""
    rows = [line.split() for line in read_lines(path) if not line.startswith("#")]
    return {name: (sha256, int(count)) for sha256, count, name in rows}


def check_pair(
    first: Path,
    second: Path,
    manifest: Manifest | None = None,
    min_correlation: float = MIN_SMALL_CORRELATION,
    *,
    words: bool = False,
) -> tuple[list[str], list[str]]:
    """Read and check two parallel files; return their lines. Raises DataError.

    manifest: must name both files. min_correlation: of the lengths of the two sides in a small block of lines; -1 turns
    the check off. words: the text is tokenised, and read as by own_words.
    """
    sides = []
    for path in (first, second):
        lines, sha256 = None, None
        if manifest is not None:
            name = path.name.removesuffix(".gz")
            if name not in manifest:
                raise DataError(f"{path}: the manifest does not name this file")
            sha256, lines = manifest[name]
        found = read_lines(path, lines, sha256)
        sides.append([text for _, text in own_words(path, enumerate(found, 1))] if words else found)
    one, two = sides
    line = misaligned_at(one, two, min_correlation)
    apart = ""
    if line:
        apart = f"the two sides come apart between lines {max(line - SMALL_BLOCK, 1)} and {line + SMALL_BLOCK - 1}"
    if len(one) != len(two):
        (longer, many), (shorter, few) = sorted(((first, len(one)), (second, len(two))), key=lambda item: -item[1])
        reason = f"misaligned: {many} lines here, {few} in {shorter}"
        raise DataError(f"{longer}:{few + 1}: {reason}" + (f"; {apart}" if apart else ""))
    if line is not None:
        raise DataError(f"{second}:{line}: misaligned with {first}: {apart} (the lengths do not go together)")
    return one, two


def check_trees(tokens: Path, trees: Path) -> int:
    """Return the number of lines; raises DataError where the leaves of a tree, in lower case, are not its line's."""
    lines, brackets = read_lines(tokens), read_lines(trees)
    if len(lines) != len(brackets):
        raise DataError(f"{trees}:{min(len(lines), len(brackets)) + 1}: {len(brackets)} trees for {len(lines)} lines")
    for number, (line, tree) in enumerate(zip(lines, brackets, strict=True), 1):
        if tree.count("(") != tree.count(")"):
            raise DataError(f"{trees}:{number}: unbalanced brackets")
        leaves = _LEAF.findall(tree)
        if [leaf.lower() for leaf in leaves] != line.lower().split():
            counts = f"{len(leaves)} leaves, {len(line.split())} tokens in {tokens}:{number}"
            raise DataError(f"{trees}:{number}: the leaves are not the tokens of the line ({counts})")
    return len(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    pair = commands.add_parser("pair", help="check two parallel files, and write them as plain text")
    pair.add_argument("files", type=Path, nargs=2, metavar="FILE")
    pair.add_argument("--manifest", type=Path, help='expected content: lines "sha256 lines name"')
    pair.add_argument("--write", type=Path, nargs=2, metavar="OUT", help="write the checked lines here, uncompressed")
    pair.add_argument("--words", action="store_true", help="it is tokenised: see lines.own_words")
    pair.add_argument("--lowercase", action="store_true", help="lower-case the written text")
    pair.add_argument(
        "--min-correlation", type=float, default=MIN_SMALL_CORRELATION,
        help="of the lengths of the two sides, by blocks of lines; -1: do not check (default: %(default)s)",
    )  # fmt: skip
    trees = commands.add_parser("trees", help="check trees against tokenised lines")
    trees.add_argument("tokens", type=Path)
    trees.add_argument("trees", type=Path)
    return parser


@as_status
def main() -> None:
    args = _parser().parse_args()
    if args.command == "trees":
        check_trees(args.tokens, args.trees)
        return
    manifest = read_manifest(args.manifest) if args.manifest else None
    first, second = args.files
    sides = check_pair(first, second, manifest, args.min_correlation, words=args.words)
    if args.write:
        for path, lines in zip(args.write, sides, strict=True):
            write_lines(path, [line.lower() for line in lines] if args.lowercase else lines)


if __name__ == "__main__":
    sys.exit(main())
