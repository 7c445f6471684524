"""First sentences of news and their headlines, of the annotated Gigaword corpus, as Rush et al. (2015) prepare them.

The text is kept as it is: lower-cased tokens, # for digits, <unk> for rare words (UNK in the test set). Read are
sumdata/{train,Giga} of github.com/harvardnlp/sent-summary, or org_data of github.com/microsoft/unilm, which has the
text under other names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from corpora.errors import DataError
from corpora.text.lines import find_file
from corpora.text.overlap import aligned

# Pairs as TensorFlow Datasets counts them in org_data.
OFFICIAL = {"train": 3_803_957, "valid": 189_651, "test": 1_951}
# Name of a form: split → (texts, headlines), below one of the folders.
FORMS = {
    "sumdata": {
        "train": ("train.article.txt", "train.title.txt"),
        "valid": ("valid.article.filter.txt", "valid.title.filter.txt"),
        "test": ("input.txt", "task1_ref0.txt"),
    },
    "org_data": {split: (f"{name}.src.txt", f"{name}.tgt.txt")
                 for split, name in (("train", "train"), ("valid", "dev"), ("test", "test"))},
}  # fmt: skip
BELOW = ("", "train", "Giga")


def files(folder: Path) -> dict[str, tuple[Path, Path]]:
    """Return the two files of each split, plain or .gz; raises DataError where one is missing."""
    missing = ""
    for form, names in FORMS.items():
        root = folder / form if (folder / form).is_dir() else folder
        found, lost = {}, []
        for split, pair in names.items():
            places = [[path for below in BELOW if (path := find_file(root / below, name)).exists()] for name in pair]
            lost += [name for name, paths in zip(pair, places, strict=True) if not paths]
            found[split] = [paths[0] for paths in places if paths]
        if not lost:
            return {split: (first, second) for split, (first, second) in found.items()}
        if len(lost) < 6 or not missing:
            missing = f"no {lost[0]}, plain or .gz"
    raise DataError(f"{folder}: {missing}; give the folder sumdata of sent-summary, or org_data, or the one it is in")


def read(folder: Path, judge: bool = True) -> Iterator[tuple[str, str, str, str]]:
    """Yield (split, text, headline, "") of all splits; judge: as in aligned(). Raises DataError with file and line."""
    for split, pair in files(folder).items():
        for article, title in aligned(*pair, OFFICIAL[split], judge):
            yield split, article, title, ""
