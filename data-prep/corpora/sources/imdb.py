"""The film reviews of Maas et al. (2011): aclImdb/{train,test}/{pos,neg}/ID_RATING.txt, one review a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from corpora.errors import DataError
from corpora.text.lines import read_whole

CLASSES = {"neg": 0, "pos": 1}
REVIEWS = 12_500  # of a class, in train and in test

_NAME = re.compile(r"\d+_(\d+)\.txt")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def reviews(folder: Path, kind: str) -> list[Path]:
    """Return the files of a folder of reviews of one kind, "pos" or "neg", in order of name; raises DataError.

    A positive review has 7 to 10 points, a negative one 1 to 4. A file in the wrong folder is refused.
    """
    try:
        files = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError as error:
        raise DataError(f"{folder}: cannot be read: {error.strerror}") from None
    files = [path for path in files if not path.name.startswith(".")]
    if not files:
        raise DataError(f"{folder}: no reviews in it")
    for path in files:
        name = _NAME.fullmatch(path.name)
        if not name:
            raise DataError(f"{path}: a review is named ID_RATING.txt; remove the file")
        points = range(7, 11) if kind == "pos" else range(1, 5)
        if int(name[1]) not in points:
            raise DataError(f"{path}: {name[1]} points, but {kind} reviews have {points.start} to {points.stop - 1}")
    return files


def text_of(path: Path) -> str:
    """Return the text of a review on one line, with spaces for HTML's line breaks; raises DataError."""
    words = _BREAK.sub(" ", read_whole(path)).split()
    if not words:
        raise DataError(f"{path}: is empty")
    return " ".join(words)


def read(folder: Path, valid: int) -> Iterator[tuple[str, str, int]]:
    """Yield (split, text, class) of all splits.

    folder: aclImdb, or its parent. valid: number of training reviews of each class, the last ones in order of name,
    that become the validation split. Raises DataError.
    """
    if (folder / "aclImdb").is_dir():
        folder = folder / "aclImdb"
    for part in ("train", "test"):
        for kind, label in CLASSES.items():
            files = reviews(folder / part / kind, kind)
            held_out = valid if part == "train" else 0
            if held_out >= len(files):
                raise DataError(
                    f"{folder / part / kind}: --valid {valid} leaves none of {len(files)} reviews to train on"
                )
            for index, path in enumerate(files):
                yield "valid" if index >= len(files) - held_out else part, text_of(path), label


def official(valid: int) -> dict[str, int]:
    """Return the number of texts in each split of the release."""
    return {"train": 2 * (REVIEWS - valid), "valid": 2 * valid, "test": 2 * REVIEWS}
