"""Reads test sets in NIST's SGML and XML: documents of numbered segments, a source and its references.

    python -m corpora.sources.sgm SOURCE.zh.sgm REFERENCE.en.sgm --write raw/test.zh raw/test.en

writes one segment a line. With --references 4 the second file must have every document four times, by four translators;
the references go to raw/test.en.ref0 to .ref3, and the first one to raw/test.en too. Segments are matched by document
and number, whatever their order; entities (&amp;) become their characters, as in NIST's own scorer. Refused, with file
and line: a file that was cut off, text that is not in the encoding, an empty segment, one that is missing or there
twice, another number of references.
"""

from __future__ import annotations

import argparse
import gzip
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import unescape

from corpora.text.parallel import DataError, as_status, write_lines

# Regular expressions, as in NIST's own scorer: these files are no XML, an & or < in a text need not be escaped.
SETS = ("mteval", "srcset", "refset", "tstset")
_TAG = re.compile(rf"<(/?)({'|'.join(SETS)}|doc|seg)\b([^>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""(\w+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_ENTITIES = {"&quot;": '"', "&apos;": "'"}  # beside &amp; &lt; &gt;


@dataclass
class Document:
    """The segments of a document as one translator (or the author) wrote it: number → (line of the file, text)."""

    name: str
    line: int
    segments: dict[str, tuple[int, str]] = field(default_factory=dict)


def decoded_lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a plain or gzip file; raises DataError."""
    number, line = 0, b""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            for line in stream:
                number += 1
                yield line.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and not line.endswith(b"\n"):
            raise DataError(f"{path}:{number}: the file was cut off inside of a character; get it again") from None
        reason = f"not {encoding} at byte {error.start + 1} of the line; give the encoding, --encoding gb18030 or big5"
        raise DataError(f"{path}:{number}: {reason}") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{path}:{number + 1}: damaged or cut-off gzip file; get it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _add_segment(path: Path, document: Document, number: str, line: int, text: str) -> None:
    text = " ".join(unescape(text, _ENTITIES).split())
    for wrong, what in ((not text, "is empty"), (number in document.segments, "is there twice")):
        if wrong:
            raise DataError(f"{path}:{line}: segment {number} of document {document.name} {what}")
    document.segments[number] = (line, text)


def read_documents(path: Path, encoding: str = "utf-8") -> list[Document]:
    """Return the documents of a file in its order, one of several translators several times; raises DataError."""
    text = "".join(decoded_lines(path, encoding))
    documents: list[Document] = []
    opened: list[tuple[str, int]] = []  # the tags around the current place, with their lines
    line, place, number, begin = 1, 0, "", 0
    for match in _TAG.finditer(text):
        line, place = line + text.count("\n", place, match.start()), match.start()
        tag, inside = match[2].lower(), opened[-1][0] if opened else ""
        given = {name.lower(): value.strip("\"'") for name, value in _ATTRIBUTE.findall(match[3])}
        if match[1]:
            if tag != inside:
                raise DataError(f"{path}:{line}: </{tag}> closes nothing: the file is damaged; get it again")
            since = opened.pop()[1]
            if tag == "seg":
                _add_segment(path, documents[-1], number, since, text[begin : match.start()])
            continue
        if inside == "seg" or (inside == "doc") != (tag == "seg"):
            where = f"inside of the <{inside}> of line {opened[-1][1]}" if opened else "outside of a <doc>"
            raise DataError(f"{path}:{line}: <{tag}> {where}: the file is damaged; get it again")
        opened.append((tag, line))
        if tag == "doc":
            documents.append(Document(given.get("docid", ""), line))
        number, begin = given.get("id", ""), match.end()
    if opened:
        tag, line = opened[-1]
        raise DataError(f"{path}:{line}: <{tag}> is not closed: the file was cut off; get it again")
    if not any(document.segments for document in documents):
        raise DataError(f"{path}: has no <doc> with a <seg>: it is no test set of NIST's form")
    return documents


def compare(source: Document, reference: Document, source_path: Path, path: Path) -> None:
    """Raise DataError unless a document and its translation have the same segments."""
    for number, (line, _) in source.segments.items():
        if number not in reference.segments:
            where = f"document {source.name} has no segment {number}, which is in {source_path}:{line}"
            raise DataError(f"{path}:{reference.line}: misaligned: {where}")
    for number, (line, _) in reference.segments.items():
        if number not in source.segments:
            where = f"segment {number} of document {source.name} is not in {source_path}"
            raise DataError(f"{path}:{line}: misaligned: {where}")


def read_set(
    source_path: Path, reference_path: Path, references: int = 1, encoding: str = "utf-8"
) -> tuple[list[str], list[list[str]]]:
    """Return the segments of the source in its order, and those of each reference in the same order; raises DataError.

    A document's k-th translation in the file of references belongs to the k-th reference: names of translators differ
    from document to document.
    """
    sources = read_documents(source_path, encoding)
    translated: dict[str, list[Document]] = {}
    for document in read_documents(reference_path, encoding):
        translated.setdefault(document.name, []).append(document)
    lines: list[str] = []
    texts: list[list[str]] = [[] for _ in range(references)]
    seen: dict[str, int] = {}
    for source in sources:
        if source.name in seen:
            raise DataError(f"{source_path}:{source.line}: document {source.name} is in line {seen[source.name]} too")
        seen[source.name] = source.line
        found = translated.pop(source.name, [])
        if len(found) != references:
            place = f"{reference_path}:{found[-1].line}" if found else f"{reference_path}"
            has = f"{len(found)} reference{'' if len(found) == 1 else 's'}"
            raise DataError(f"{place}: document {source.name} has {has}, {references} wanted")
        for reference in found:
            compare(source, reference, source_path, reference_path)
        lines += [text for _, text in source.segments.values()]
        for number, reference in enumerate(found):
            texts[number] += [reference.segments[segment][1] for segment in source.segments]
    for name, rest in translated.items():
        raise DataError(f"{reference_path}:{rest[0].line}: misaligned: document {name} is not in {source_path}")
    return lines, texts


def write_set(target: tuple[Path, Path], lines: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    """Write a source and its references; several go to .ref0, .ref1, …, the first one to the plain name too."""
    write_lines(target[0], lines)
    write_lines(target[1], texts[0])
    if len(texts) > 1:
        for number, reference in enumerate(texts):
            write_lines(target[1].with_name(f"{target[1].name}.ref{number}"), reference)


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--references", type=int, default=1, help="translations of each document (default: 1)")
    parser.add_argument("--encoding", default="utf-8", help="of both files (default: %(default)s)")
    parser.add_argument(
        "--write", type=Path, nargs=2, required=True, metavar="OUT", help="source and reference as lines"
    )
    parser.add_argument("--official", type=int, help="segments that the set should have, to print beside")
    args = parser.parse_args()
    lines, texts = read_set(args.source, args.reference, args.references, args.encoding)
    write_set((args.write[0], args.write[1]), lines, texts)
    official = f" (official: {args.official:,})" if args.official else ""
    print(f"{args.write[0].stem}: {len(lines):,} segments{official}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
