"""Reads test sets in NIST's SGML and XML: documents of numbered segments, a source and its references.

Segments are matched by document and number, in any order; entities (&amp;) become their characters, as in NIST's own
scorer. Errors, with file and line, are a file that was cut off, text in another encoding, an empty, missing or
duplicate segment, and another number of references.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import unescape

from corpora.errors import DataError
from corpora.text.lines import read_lines

# Regular expressions, as in NIST's own scorer: the files are no XML, as & and < in their text need not be escaped.
SETS = ("mteval", "srcset", "refset", "tstset")
_TAG = re.compile(rf"<(/?)({'|'.join(SETS)}|doc|seg)\b([^>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""(\w+)\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+)""")
_ENTITIES = {"&quot;": '"', "&apos;": "'"}  # in addition to &amp; &lt; &gt;


@dataclass
class Document:
    """One version of a document, by its author or a translator; segments: number → (line of the file, text)."""

    name: str
    line: int
    segments: dict[str, tuple[int, str]] = field(default_factory=dict)


def _read(path: Path, encoding: str) -> str:
    """Return the text of a plain or gzip file, without a byte order mark; raises DataError."""
    try:
        text = "\n".join(line for _, line in read_lines(path, encoding, open_end=True))
    except DataError as error:
        hint = "give the encoding, --encoding gb18030 or big5, or get the file again if the file was cut off"
        raise DataError(f"{error}; {hint}" if "invalid" in str(error) else str(error)) from None
    return text.removeprefix("\ufeff")


def _add_segment(path: Path, document: Document, number: str, *, line: int, text: str) -> None:
    text = " ".join(unescape(text, _ENTITIES).split())
    for wrong, what in ((not text, "is empty"), (number in document.segments, "is there twice")):
        if wrong:
            raise DataError(f"{path}:{line}: segment {number} of document {document.name} {what}")
    document.segments[number] = (line, text)


def read_documents(path: Path, encoding: str = "utf-8") -> list[Document]:
    """Return the documents of a file in its order, one for each translator; raises DataError."""
    text = _read(path, encoding)
    documents: list[Document] = []
    opened: list[tuple[str, int]] = []  # tags around the current place, with their lines
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
                _add_segment(path, documents[-1], number, line=since, text=text[begin : match.start()])
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
    for number, (line, _) in [*source.segments.items(), *reference.segments.items()]:
        if number not in reference.segments:
            where = f"document {source.name} has no segment {number}, which is in {source_path}:{line}"
            raise DataError(f"{path}:{reference.line}: misaligned: {where}")
        if number not in source.segments:
            where = f"segment {number} of document {source.name} is not in {source_path}"
            raise DataError(f"{path}:{line}: misaligned: {where}")


def read_set(
    source_path: Path, reference_path: Path, references: int = 1, encoding: str = "utf-8"
) -> tuple[list[str], list[list[str]]]:
    """Return the segments of the source in its order, and those of each reference in the same order; raises DataError.

    references: number of translations that the second file must have of each document. The k-th one in the file belongs
    to the k-th reference, since names of translators differ between documents.
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
