"""Small tables of texts and summaries, for the tests of their preparations."""

from __future__ import annotations

from pathlib import Path

LANGS = ("article", "summary")


def write_lines(path: Path, lines: list[str]) -> None:
    """Write a text file; its folder is created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def tables(folder: Path, splits: dict[str, int]) -> dict[str, tuple[list[str], list[str]]]:
    """Write {split}.source and .target with this number of pairs; text and summary of a pair share its number."""
    texts = {}
    for split, count in splits.items():
        numbers = range(count)
        article = [f"The city of place{n} has a new bridge. It cost {n} coins." for n in numbers]
        texts[split] = (article, [f"Bridge of place{n} opened ." for n in numbers])
        for name, lines in zip(("source", "target"), texts[split], strict=True):
            write_lines(folder / f"{split}.{name}", lines)
    return texts
