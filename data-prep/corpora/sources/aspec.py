"""Takes the two languages out of files of ASPEC-JE, the English-Japanese corpus of WAT.

    python -m corpora.sources.aspec raw/train.ja raw/train.en train/train-1.txt --scored --official 1000000
    python -m corpora.sources.aspec raw/valid.ja raw/valid.en dev/dev.txt --official 1790

A line of the training files is `score ||| id ||| number ||| Japanese ||| English`; those of dev, devtest and test have
no score. Refused, with file and line: missing fields, a first field that is no score (or is one), an empty side, a file
that is missing, cut off or not UTF-8. Pairs of training text with an empty side are left out and counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from corpora.text.bitext import compare, tell, whole_files
from corpora.text.parallel import DataError, as_status
from corpora.text.streams import decode, read_bytes

SEPARATOR = " ||| "
FIELDS = ("id", "number", "Japanese", "English")


def is_score(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_pairs(path: Path, scored: bool) -> Iterator[tuple[int, str, str]]:
    """Yield (line number, Japanese, English) of a file, plain or .gz; raises DataError."""
    names = ("score", *FIELDS) if scored else FIELDS
    form = SEPARATOR.join(names)
    for number, line in read_bytes(path):
        fields = decode(path, number, line).replace("\r", " ").split(SEPARATOR, len(names) - 1)
        if len(fields) < len(names):
            raise DataError(f"{path}:{number}: {len(fields)} fields, {len(names)} wanted: {form}")
        if scored != is_score(fields[0]):
            found = f"'{fields[0][:20]}'"
            reason = f"{found} is no score" if scored else f"{found} is a score, as in training files"
            raise DataError(f"{path}:{number}: {reason}; wanted: {form}")
        yield number, fields[-2].strip(), fields[-1].strip()


def extract(sources: Sequence[Path], targets: tuple[Path, Path], scored: bool) -> tuple[int, int]:
    """Write Japanese and English of all sources; return how many pairs, and how many left out. Raises DataError."""
    count = empty = 0
    told = time.monotonic()
    with whole_files(targets) as (japanese, english):
        for source in sources:
            for number, ja, en in read_pairs(source, scored):
                if ja and en:
                    japanese.write(ja + "\n")
                    english.write(en + "\n")
                    count += 1
                elif scored:
                    empty += 1
                else:
                    raise DataError(f"{source}:{number}: the {'English' if ja else 'Japanese'} is empty")
                told = tell(source.name, count, told)
    return count, empty


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", type=Path, nargs=2, metavar="OUT", help="Japanese, English")
    parser.add_argument("sources", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--scored", action="store_true", help="training files: a score comes first")
    parser.add_argument("--official", type=int, help="pairs that there should be, to print beside")
    args = parser.parse_args()
    count, empty = extract(args.sources, tuple(args.targets), args.scored)
    compare(args.targets[0].stem, count, args.official)
    if empty:
        print(f"{args.targets[0].stem}: {empty:,} more pairs have an empty side and are left out", flush=True)


if __name__ == "__main__":
    sys.exit(main())
