"""Output of fairseq-generate and -interactive: read, with subwords joined and text detokenised."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from sacremoses import MosesDetokenizer

from fairseq_localattn.errors import UsageError

BPE_KINDS = ("subword_nmt", "sentencepiece", "wordpiece", "none")
# Marks of subwords that are not joined. Text may have some too, so lines are counted.
# Gigaword's ##th and the ##AT## of compounds are no marks.
MARKS = {"subword_nmt": r"\w@@(?!\S)", "sentencepiece": "\u2581", "wordpiece": r" ##[^\W\d_]{3,}(?!\S)"}
MOST_MARKED = 0.05  # of the lines
OTHER_CODES = {"zho": "zh", "chi": "zh", "cmn": "zh", "jpn": "ja"}  # of three letters; others are refused


class ScoreError(UsageError):
    """Raised for output or references that cannot be scored; the message names the file and what is wrong with it."""


def read_lines(path: str | Path, errors: str = "strict") -> list[str]:
    """Return the lines of a text file, plain or .gz, without a byte-order mark at its start. Raises ScoreError.

    Lines are split at newlines only, as Moses and fairseq do.
    """
    opened = gzip.open if Path(path).suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", errors=errors) as file:
            text = file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ScoreError(f"{path}: a damaged or cut-off gzip file") from None
    except OSError as error:
        raise ScoreError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ScoreError(f"{path}: not UTF-8: {error}") from None
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_as_long(path: str | Path, other: str | Path, size: int) -> list[str]:
    """Return the lines of a file. Raises ScoreError unless there are ``size``, as many as ``other`` has."""
    lines = read_lines(path)
    if len(lines) != size:
        raise ScoreError(f"{path}: {len(lines)} lines, but {other} has {size}")
    return lines


def read_generated(path: str | Path, size: int, kind: str = "H") -> list[str]:
    """Return ``size`` hypotheses (kind 'H') or sources ('S') of fairseq's output, in the data set's order.

    Raises ScoreError unless each sentence 0 … size − 1 is there once, and the output's end as well: the last line of
    fairseq-generate, or of fairseq-interactive the scores of the last sentence's words. The message names what is
    missing, doubled or unexpected.
    """
    found: dict[int, str] = {}
    finished = False
    marker = re.compile(rf"{kind}-(\d+)\t")
    lines = read_lines(path)
    interactive = any(line.startswith("W-") for line in lines)  # the time of a sentence, which fairseq-generate lacks
    command = "fairseq-interactive" if interactive else "fairseq-generate"
    last = f"P-{size - 1}\t" if interactive else "Generate "
    for number, line in enumerate(lines, start=1):
        finished = finished or line.startswith(last) and (interactive or " with beam=" in line)
        match = marker.match(line)
        if match is None:
            continue
        index = int(match.group(1))
        fields = line.split("\t")
        if len(fields) != (3 if kind == "H" else 2):
            raise ScoreError(
                f"{path}:{number}: sentence {index}: a line {kind}-{index} that is cut off or not {command}'s"
            )
        if index in found:
            raise ScoreError(
                f"{path}:{number}: sentence {index} comes twice (was the output appended to, or --nbest above 1?)"
            )
        if index >= size:
            raise ScoreError(
                f"{path}:{number}: sentence {index}, but the reference has only {size} lines: another test set?"
            )
        found[index] = fields[-1]
    missing = [index for index in range(size) if index not in found]
    if missing:
        shown = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ScoreError(
            f"{path}: {len(missing)} of {size} sentences are missing ({shown}): truncated; run {command} again"
        )
    if not finished:
        end = last.rstrip("\t") if interactive else "Generate ... with beam=..."
        raise ScoreError(f"{path}: the final line '{end}' is missing: truncated; run {command} again")
    return [found[index] for index in range(size)]


def read_hypotheses(path: str | Path, size: int, bpe: str) -> list[str]:
    """Return what ``read_generated`` does, with subwords joined. Raises ScoreError, also for other subwords.

    A model that has learned nothing may write no word mark of SentencePiece. Then the sources have some, or fairseq
    joins the pieces for D- alone.
    """
    lines = read_generated(path, size)
    for kind, mark in MARKS.items():
        marked = sum(re.search(mark, line) is not None for line in lines)
        if kind != bpe and marked > MOST_MARKED * size:
            raise ScoreError(f"{path}: {marked} of {size} sentences are in subwords of {kind}: give --bpe {kind}")
    written = read_lines(path)
    texts = [[line.split("\t")[-1] for line in written if line.startswith(kind)] for kind in ("H-", "D-")]
    if bpe == "sentencepiece" and texts[0] == texts[1] and not any(MARKS[bpe] in line for line in written):
        mend = "generate it without --remove-bpe, or give another --bpe"
        raise ScoreError(f"{path}: has no word marks of SentencePiece: {mend}")
    return [remove_bpe(line, bpe) for line in lines]


def language_of(name: str) -> str:
    """Return the code of a language: 'zh' of 'ZH', 'zh-CN' or 'zho_Hans'."""
    code = re.split("[-_]", name.lower())[0]
    return OTHER_CODES.get(code, code)


def remove_bpe(line: str, bpe: str = "subword_nmt") -> str:
    """Return a line with subwords joined: '@@ ' of subword-nmt, word marks of SentencePiece, ' ##' of WordPiece."""
    if bpe == "subword_nmt":
        return (line + " ").replace("@@ ", "").rstrip()
    if bpe == "sentencepiece":
        return line.replace(" ", "").replace("\u2581", " ").strip()
    if bpe == "wordpiece":
        return line.replace(" ##", "")
    return line


def pieces_of_text(bpe: str, language: str) -> bool:
    """Return whether subwords are of raw text and need no detokenisation once joined; Japanese loses its spaces."""
    return bpe == "sentencepiece" and language != "ja"


def detokenise(lines: Sequence[str], language: str) -> list[str]:
    """Return tokenised lines as text, by Moses' detokenisation (sacremoses), entities unescaped.

    Japanese is joined without spaces, but for those between two Latin words: MeCab would read these as one word.
    """
    if language == "ja":
        return [re.sub(r"(?<![A-Za-z])\s+|\s+(?![A-Za-z])", "", line) for line in lines]
    moses = MosesDetokenizer(lang=language)
    return [moses.detokenize(line.split()) for line in lines]
