"""Files of the mini corpora; equal content gives equal bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path


def as_text(lines: Iterable[str]) -> bytes:
    """Return the lines as the content of a file."""
    return "".join(line + "\n" for line in lines).encode()


def write(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a file, compressed if its name ends in .gz; its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = as_text(lines)
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def sgm(kind: str, documents: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """Yield the lines of a test set of WMT, IWSLT or NIST.

    kind: srcset or refset; documents: attributes, and a text for each segment.
    """
    yield f'<{kind} setid="mini" srclang="any">'
    for about, texts in documents:
        segments = (f'<seg id="{number}"> {escape(text, quote=False)} </seg>' for number, text in enumerate(texts, 1))
        yield from (f"<doc {about}>", "<p>", *segments, "</p>", "</doc>")
    yield f"</{kind}>"


def archive(path: Path, members: Mapping[str, bytes]) -> None:
    """Write an archive of these members: .zip, .tar, or compressed with gzip (.tgz, .tar.gz)."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, content in members.items():
                zipped.writestr(zipfile.ZipInfo(name), content)
        return
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    data = packed.getvalue()
    path.write_bytes(data if path.suffix == ".tar" else gzip.compress(data, mtime=0))
