"""Prepared corpora: folders as the scripts of data-prep/ leave them."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

from experiments.recipes.recipe import Recipe

PHRASE_TASK = "translation_with_phrases"  # fairseq's task whose source sentences come with phrases


@dataclass(frozen=True)
class Prepared:
    """A data folder as data-prep leaves it: bin/ for fairseq; for translation raw/, tok/, bpe/ with {split}.LANG."""

    folder: Path
    source: str = ""
    target: str = ""
    bpe: str = "subword_nmt"
    lowercase: bool = False

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def _has_phrases(self) -> bool:
        """Return whether all phrases are there; a preparation that was killed among them has written some."""
        begun = (self.folder / "trees.txt").exists()
        return any(self.bin.glob("*.phrases.*")) and (not begun or (self.folder / "phrases").is_dir())

    def complete(self, phrases: bool) -> bool:
        """Return whether the preparation has nothing to do, with ``phrases`` also none of trees, which come last."""
        return self.bin.is_dir() and (not phrases or (self.folder / "phrases").is_dir())

    def references(self, kind: str, subset: str) -> list[Path]:
        """Return the references of a test set of a ``kind`` (raw, tok): {subset}.TARGET, or its .ref0, …"""
        one = self.folder / kind / f"{subset}.{self.target}"
        several = sorted(one.parent.glob(f"{one.name}.ref[0-9]"))
        return several or [one]

    def fingerprint(self, phrases: bool = False) -> str:
        """Return a hash of the binarised data, with ``phrases`` also of the source's phrases."""
        return _fingerprint(self.bin, phrases)

    def fingerprint_for(self, recipe: Recipe) -> str:
        """Return the fingerprint of what the recipe's task reads; 'not prepared' where there are no data yet.

        Data that are read against the direction of their name, as en-de from train.de-en, are others than those read
        along with it.
        """
        phrases = recipe.flag("train", "task") == PHRASE_TASK
        if not self.bin.is_dir() or phrases and not self._has_phrases():
            return f"not prepared {self.folder.name} {self.source}-{self.target}"
        found = self.fingerprint(phrases)
        reverse = f"{self.target}-{self.source}"
        return f"{found} from {reverse}" if self.source and any(self.bin.glob(f"train.{reverse}.*")) else found


@functools.cache
def _fingerprint(folder: Path, phrases: bool) -> str:
    digest = hashlib.sha256()
    for path in sorted([*folder.rglob("*.bin"), *folder.rglob("*.idx"), *folder.rglob("dict*.txt")]):
        if not phrases and ".phrases." in path.name:
            continue
        digest.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


@functools.cache
def trees_fingerprint(folder: Path | None) -> str:
    """Return eight hex digits that change with the .mrg files of a folder; empty without one."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.mrg*")) if folder else []:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:8] if folder else ""


def forget_fingerprints() -> None:
    """Read the data again at the next fingerprint; to be called after a preparation."""
    _fingerprint.cache_clear()
    trees_fingerprint.cache_clear()
