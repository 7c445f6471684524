"""Trees of the Stanford Sentiment Treebank (Socher et al., 2013).

One tree a line: (LABEL TREE TREE) or (LABEL WORD), labels from 0, very negative, to 4, very positive.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from corpora.errors import DataError
from corpora.text.lines import check_words, find_file, read_lines
from corpora.trees.leaves import from_leaf

FILES = {"train": "train.txt", "valid": "dev.txt", "test": "test.txt"}
# Number of classes → split → sentences in the release.
OFFICIAL = {
    5: {"train": 8544, "valid": 1101, "test": 2210},
    2: {"train": 6920, "valid": 872, "test": 1821},
}

# A word may contain a no-break space ("2 1\/2"), or a separator of lines; either becomes a space.
_WORD = r"[^ \t()]+"


def subtrees(tree: str) -> list[tuple[str, int]]:
    """Return (text, label) of every subtree, children before their parent: the last is the whole sentence.

    Raises ValueError for what is no such tree.
    """
    from nltk import Tree

    if not tree:
        raise ValueError("empty line, and no tree")
    try:
        top = Tree.fromstring(tree, node_pattern=_WORD, leaf_pattern=_WORD)
    except ValueError:
        raise ValueError("unbalanced brackets, or more than one tree") from None
    found: list[tuple[str, int]] = []

    def close(node: Tree) -> str:
        label, inner = node.label(), [isinstance(child, Tree) for child in node]
        if label not in ("0", "1", "2", "3", "4"):
            raise ValueError(f"a label from 0 to 4 must follow each bracket, found {label or 'none'}")
        if inner not in ([False], [True, True]):
            raise ValueError(f"a node has two subtrees or one word, found {sum(inner)} subtrees of {len(inner)}")
        texts = [close(child) if isinstance(child, Tree) else " ".join(from_leaf(child).split()) for child in node]
        found.append((" ".join(texts), int(label)))
        return found[-1][0]

    close(top)
    return found


def to_class(label: int, classes: int) -> int | None:
    """Return the class of a label: of 5 classes, the label; of 2, 0 negative, 1 positive and None neutral."""
    return label if classes == 5 else {0: 0, 1: 0, 3: 1, 4: 1}.get(label)


def read(folder: Path, classes: int, phrases: bool) -> Iterator[tuple[str, str, int]]:
    """Yield (split, text, class) of all splits; texts without class are left out.

    phrases: the training split is every distinct phrase of the training trees. The sentences are then the split
    "sentences", from which the dictionary is made: over phrases, a rare word counts once for each that contains it.
    Raises DataError with file and line.
    """
    for split, name in FILES.items():
        path = find_file(folder, name)
        seen: set[tuple[str, int]] = set()
        for number, line in read_lines(path):
            try:
                trees = subtrees(line.strip())
            except ValueError as error:
                raise DataError(f"{path}:{number}: {error}") from None
            check_words(path, number, trees[-1][0])
            whole = to_class(trees[-1][1], classes)
            extended = phrases and split == "train"
            if whole is not None:
                yield "sentences" if extended else split, trees[-1][0], whole
            for text, label in trees if extended else []:
                chosen = to_class(label, classes)
                if chosen is not None and (text, chosen) not in seen:
                    seen.add((text, chosen))
                    yield split, text, chosen
