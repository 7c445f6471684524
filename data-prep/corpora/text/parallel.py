"""Checks parallel text before anything is built on it, and writes it as plain UTF-8 files.

    python -m corpora.text.parallel pair train.de.gz train.en.gz [--manifest FILE] [--write train.de train.en]
    python -m corpora.text.parallel trees train.en train.en.tree

`pair` refuses a missing file, a checksum or line count that differs from the manifest, a cut-off file, invalid UTF-8,
an empty line, a carriage return, files of different length, and lines that do not belong together; `trees` refuses a
tree whose leaves are not the tokens of its line. Each error is one line that names file and line, with exit status 1;
nothing is written then. Gzip files (.gz) are read as they are.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import hashlib
import os
import re
import statistics
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

# Translations of each other have correlated lengths. In blocks of this many lines the correlation of the lengths in
# characters was at least 0.81 on Multi30k, 0.93 on the toy corpus, 0.92 on IWSLT14 De-En and 0.34 on Japanese-English;
# shifted by one line it was at most 0.22 on the first two, 0.48 on IWSLT14. See tests/test_data_prep.py.
BLOCK = 100
MIN_CORRELATION = 0.6

_LEAF = re.compile(r" ([^\s()]+)\)")


class DataError(Exception):
    """A data file that cannot be used; the message names the file, and the line where there is one."""


def as_status(work: Callable[[], None]) -> Callable[[], int]:
    """`work` as a command's main(): exit status 0, or 1 after one line where data are wrong or cannot be written."""

    @functools.wraps(work)
    def command() -> int:
        try:
            work()
        except DataError as error:
            print(f"data error: {error}", file=sys.stderr)
            return 1
        except OSError as error:
            print(f"data error: {error.filename}: cannot be written: {error.strerror}", file=sys.stderr)
            return 1
        return 0

    return command


def read_lines(path: Path, lines: int | None = None, sha256: str | None = None) -> list[str]:
    """Return the lines of a text file or a gzip file, without their newlines.

    lines, sha256: expected number of lines and checksum of the uncompressed bytes; None: not checked.
    Raises DataError for a missing, cut-off or otherwise unusable file.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if path.suffix == ".gz":
        data = _decompress(path, data)
    count = data.count(b"\n")
    if not data:
        raise DataError(f"{path}: is empty")
    if not data.endswith(b"\n"):
        raise DataError(f"{path}:{count + 1}: the last line has no newline: the file was cut off; get it again")
    if lines is not None and count != lines:
        raise DataError(f"{path}:{min(count, lines) + 1}: expected {lines} lines, found {count}; get the file again")
    found = hashlib.sha256(data).hexdigest()
    if sha256 is not None and found != sha256:
        raise DataError(f"{path}: wrong checksum: expected sha256 {sha256}, found {found}; get the file again")
    return [_decode(path, number, line) for number, line in enumerate(data[:-1].split(b"\n"), 1)]


def _decompress(path: Path, data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        pass
    # Count what can still be read, to name the line.
    engine, readable = zlib.decompressobj(zlib.MAX_WBITS | 16), b""
    try:
        readable = engine.decompress(data)
    except zlib.error:
        pass
    line = readable.count(b"\n") + 1
    raise DataError(f"{path}:{line}: damaged or cut-off gzip file; get it again")


def _decode(path: Path, number: int, line: bytes) -> str:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}:{number}: invalid UTF-8 at byte {error.start + 1} of the line") from None
    if not text.strip():
        raise DataError(f"{path}:{number}: empty line; remove the line from both languages")
    if "\r" in text:  # fairseq and subword-nmt would read it as the end of a line
        raise DataError(f"{path}:{number}: carriage return; remove it with sed 's/\\r$//'")
    return text


def misaligned_at(first: Sequence[str], second: Sequence[str], minimum: float = MIN_CORRELATION) -> int | None:
    """Return the number (from 1) of the first line of the first block whose lengths do not go together, or None.

    A block is BLOCK lines; a shorter file is not judged, nor is a block in which all lines of a side are equally long.
    """
    for start in range(0, min(len(first), len(second)) - BLOCK + 1, BLOCK):
        lengths = [[len(line) for line in side[start : start + BLOCK]] for side in (first, second)]
        try:
            correlation = statistics.correlation(*lengths)
        except statistics.StatisticsError:
            continue
        if correlation < minimum:
            return start + 1
    return None


def read_manifest(path: Path) -> dict[str, tuple[str, int]]:
    """Return {file name without .gz: (sha256, number of lines)} from lines "sha256 lines name"."""
    entries = {}
    for line in read_lines(path):
        if not line.startswith("#"):
            sha256, count, name = line.split()
            entries[name] = (sha256, int(count))
    return entries


def check_pair(
    first: Path,
    second: Path,
    manifest: dict[str, tuple[str, int]] | None = None,
    min_correlation: float = MIN_CORRELATION,
) -> tuple[list[str], list[str]]:
    """Read and check two parallel files; return their lines.

    manifest: what read_manifest returns; a file that it does not name is an error.
    min_correlation: of the lengths of the two sides in a block of lines; -1 turns the check off.
    Raises DataError.
    """
    sides = []
    for path in (first, second):
        lines, sha256 = None, None
        if manifest is not None:
            name = path.name.removesuffix(".gz")
            if name not in manifest:
                raise DataError(f"{path}: the manifest does not name this file")
            sha256, lines = manifest[name]
        sides.append(read_lines(path, lines, sha256))
    one, two = sides
    line = misaligned_at(one, two, min_correlation)
    apart = f"the two sides come apart between lines {max(line - BLOCK, 1)} and {line + BLOCK - 1}" if line else ""
    if len(one) != len(two):
        (longer, many), (shorter, few) = sorted(((first, len(one)), (second, len(two))), key=lambda item: -item[1])
        reason = f"misaligned: {many} lines here, {few} in {shorter}"
        raise DataError(f"{longer}:{few + 1}: {reason}" + (f"; {apart}" if apart else ""))
    if line is not None:
        raise DataError(f"{second}:{line}: misaligned with {first}: {apart} (the lengths do not go together)")
    return one, two


def check_trees(tokens: Path, trees: Path) -> int:
    """Check that the leaves of each tree are the tokens of its line, letter case aside; return the number of lines.

    Raises DataError.
    """
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


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write the lines to a temporary file beside `path`, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.part{os.getpid()}")
    temporary.write_bytes("".join(line + "\n" for line in lines).encode())
    os.replace(temporary, path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    pair = commands.add_parser("pair", help="check two parallel files, and write them as plain text")
    pair.add_argument("files", type=Path, nargs=2, metavar="FILE")
    pair.add_argument("--manifest", type=Path, help='expected content: lines "sha256 lines name"')
    pair.add_argument("--write", type=Path, nargs=2, metavar="OUT", help="write the checked lines here, uncompressed")
    pair.add_argument("--lowercase", action="store_true", help="lower-case what is written")
    pair.add_argument(
        "--min-correlation", type=float, default=MIN_CORRELATION,
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
    sides = check_pair(first, second, manifest, args.min_correlation)
    if args.write:
        for path, lines in zip(args.write, sides, strict=True):
            write_lines(path, [line.lower() for line in lines] if args.lowercase else lines)


if __name__ == "__main__":
    sys.exit(main())
