"""The command that writes the phrases of a source language, and their tags, next to its binarised text.

    python -m fairseq_localattn.phrases.binarize DATA --lang en --texts BPE_DIR --trees TREE_DIR

DATA is a folder that fairseq-preprocess wrote. For each of its splits {split}.{a}-{b}.{lang} the command reads the text
BPE_DIR/{split}.{lang} and the trees TREE_DIR/{split}.{lang}.tree, one a line in the order of the text. An empty line is
a sentence without a tree, whose words become phrases without tags. The command writes

- {split}.{a}-{b}.{lang}.phrases.{bin,idx}: the phrases (see store.py);
- dict.{lang}.phrases.txt: the tags of all splits, the most frequent in training first;
- {lang}.phrases.json: the settings.

All files appear together at the end; a run that was stopped is started again from the beginning. Errors are one line
with exit status 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary

from ..errors import UsageError
from ..files import described
from ..parallel import cores
from .convert import Conversion
from .splits import Split, find_splits
from .store import MOST_LEVELS
from .subwords import CONVENTIONS
from .trees import TreeError
from .write import write_phrases

LEVELS = 3  # that models read, unless they are told of more


def report(data: Path, lang: str, splits: Sequence[Split], tags: Dictionary) -> None:
    """Print the counts of each split and the number of tags."""
    for split in splits:
        total = max(1, split.sentences)
        numbers = ", ".join(f"{mean:.2f}" for mean in np.atleast_1d(split.phrases) / total)
        print(
            f"{split.prefix.name}: {split.sentences:,} sentences, {split.without_tree:,} without a tree "
            f"({100 * split.without_tree / total:.2f} %); phrases a sentence by level: {numbers}"
        )
        if split.differing:
            print(
                f"{split.prefix.name}: words differ from the leaves in {split.differing:,} sentences, first "
                f"{split.trees}:{split.first_differing}; look whether these trees are those of this text"
            )
    print(f"{data}/dict.{lang}.phrases.txt: {len(tags) - tags.nspecial} tags")


def load_dictionary(path: Path) -> Dictionary:
    """Return a dictionary of tags. Raises UsageError where it cannot be read."""
    try:
        return Dictionary.load(str(path))
    except OSError as error:
        raise UsageError(f"--tag-dictionary {described(error)}") from None


def check_levels(levels: int) -> None:
    """Raise UsageError for more levels than phrases may have. Levels below the words of a sentence repeat the words."""
    if levels > MOST_LEVELS:
        raise UsageError(
            f"--levels {levels}: at most {MOST_LEVELS} are possible; models read the first {LEVELS}, or those of "
            "--mgsa-heads"
        )


def make_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn.phrases.binarize",
        description="Write the phrases of a source language, and their tags, beside its binarised text.",
    )
    parser.add_argument("data", type=Path, metavar="DATA", help="folder that fairseq-preprocess wrote")
    parser.add_argument("--lang", required=True, help="the source language")
    parser.add_argument("--texts", type=Path, required=True, metavar="DIR", help="{split}.{lang}, split into subwords")
    parser.add_argument("--trees", type=Path, required=True, metavar="DIR", help="{split}.{lang}.tree, one a line")
    parser.add_argument("--levels", type=int, default=LEVELS, metavar="N", help=f"of the trees (default: {LEVELS})")
    parser.add_argument("--subwords", choices=CONVENTIONS, default=CONVENTIONS[0], help="default: %(default)s")
    parser.add_argument(
        "--tag-dictionary", type=Path, metavar="FILE", help="dict.{lang}.phrases.txt of the training data"
    )
    parser.add_argument("--workers", type=int, default=cores(), metavar="N", help="processes (default: %(default)s)")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Write the phrases and print a report. Raises UsageError where an input is missing or does not fit."""
    parser = make_parser()
    args = parser.parse_args(argv)
    for name in ("levels", "workers"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be 1 or more")
    tags, known = None, None
    if args.tag_dictionary is not None:
        tags = load_dictionary(args.tag_dictionary)
        known = frozenset(tags.symbols[tags.nspecial :])
    check_levels(args.levels)
    splits = find_splits(args.data, args.lang, args.texts, args.trees)
    if tags is None and not any(split.name.startswith("train") for split in splits):
        raise UsageError(
            f"{args.data}: no training split to take the tags from; give --tag-dictionary, the "
            f"dict.{args.lang}.phrases.txt of the training data"
        )
    conversion = Conversion(args.levels, args.subwords, known, str(args.tag_dictionary or ""))
    try:
        tags = write_phrases(args.data, args.lang, splits, conversion, tags=tags, workers=args.workers)
    except TreeError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(described(error)) from None
    except BrokenProcessPool:
        raise UsageError("a process was ended by the system, as where memory is short: give fewer --workers") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    report(args.data, args.lang, splits, tags)


if __name__ == "__main__":
    main()
