"""The documents of the repository, their blocks of code, and the commands in them.

A block that a test cannot run has an HTML comment in the line before it, with the reason:

    <!-- not run: hours on GPUs -->
    ```bash
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support.paths import ROOT

SHELL = ("bash", "sh", "shell", "console")
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*.md")),
]
_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<excuse>.+?) -->\n\n?)?```(?P<head>[^\n`]*)\n(?P<text>.*?)^```$", re.M | re.S
)
_INNER = re.compile(r"\$\(([^()]*)\)")
_SEPARATORS = frozenset("|&;<>()")


@dataclass(frozen=True)
class Block:
    """A fenced block of a document: where it begins, language, title, text, and why it is not run (empty: it is)."""

    path: Path
    line: int
    language: str
    title: str
    text: str
    excuse: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a Markdown file."""
    text, found = path.read_text("utf-8"), []
    for match in _BLOCK.finditer(text):
        language, _, title = match["head"].partition(' title="')
        line = text.count("\n", 0, match.start("head")) + 1
        found.append(Block(path, line, language, title.rstrip('"'), match["text"], match["excuse"] or ""))
    return found


def shell_blocks(path: Path) -> list[Block]:
    """Return the blocks of shell commands of a Markdown file."""
    return [block for block in blocks(path) if block.language in SHELL]


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each simple command of a shell text, those in $(…) included.

    Assignments before a command are dropped, and what follows a redirection.
    """
    for line in text.replace("\\\n", " ").splitlines():
        while inner := _INNER.search(line):
            yield from commands(inner[1])
            line = line[: inner.start()] + "OUTPUT" + line[inner.end() :]
        words: list[str] = []
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
        lexer.whitespace_split, lexer.commenters = True, "#"
        redirected = False
        for word in [*lexer, ";"]:
            if set(word) <= _SEPARATORS:
                if words and not redirected:
                    yield words
                words, redirected = [], word[0] in "<>"
                continue
            if words or not re.match(r"\w+=", word):
                words.append(word)
