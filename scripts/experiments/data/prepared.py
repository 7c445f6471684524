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

    def fingerprint_for(self, recipe: Recipe) -> str:
        """Return a hash of the binarised data that the recipe's task reads; empty where there are none yet.

        Data read in reverse, as en-de from train.de-en, have another hash than the same data read forward.
        """
        phrases = recipe.flag("train", "task") == PHRASE_TASK
        if not self.bin.is_dir() or phrases and not self._has_phrases():
            return ""
        found = [*self.bin.rglob("*.bin"), *self.bin.rglob("*.idx"), *self.bin.rglob("dict*.txt")]
        hashed = _hash(self.bin, *(path for path in found if phrases or ".phrases." not in path.name))
        reverse = f"{self.target}-{self.source}"
        return f"{hashed} from {reverse}" if self.source and any(self.bin.glob(f"train.{reverse}.*")) else hashed


def trees_fingerprint(folder: Path | None) -> str:
    """Return eight hex digits that change with the .mrg files of a folder; empty without one."""
    return _hash(folder, *folder.glob("*.mrg*"), after_name=b"\0")[:8] if folder else ""


def _hash(folder: Path, *paths: Path, after_name: bytes = b"") -> str:
    """Return a hash of the names and the contents of files; of the same size and time they are not read again."""
    stats = [(path, path.stat()) for path in sorted(paths)]
    return _hash_of(folder, tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats), after_name)


@functools.lru_cache
def _hash_of(folder: Path, files: tuple[tuple[Path, int, int], ...], after_name: bytes) -> str:
    digest = hashlib.sha256()
    for path, _, _ in files:
        digest.update(str(path.relative_to(folder)).encode() + after_name)
        with path.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
