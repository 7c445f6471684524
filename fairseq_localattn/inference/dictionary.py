"""The words of a language and their numbers, read from fairseq's ``dict.XX.txt``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import UsageError
from ..files import write_whole

BOS, PAD, EOS, UNK = range(4)
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
OVERWRITE = "#fairseq:overwrite"


class Dictionary:
    """Words and their numbers; the first four are fairseq's special ones."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.numbers = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def read(cls, path: Path) -> Dictionary:
        """Read a file of lines ``word count``. Raises UsageError for a file that is missing or none of fairseq's."""
        try:
            with open(path, encoding="utf-8") as stream:  # splitlines would also end lines at characters of words
                lines = stream.readlines()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}; give the dictionary of the training") from None
        except UnicodeDecodeError:
            raise UsageError(f"{path}: is not UTF-8; give the dictionary of the training") from None
        words = list(SPECIAL)
        seen = set(words)
        for number, line in enumerate(lines, 1):
            word, _, count = line.rstrip().rpartition(" ")
            overwrites = count == OVERWRITE
            if overwrites:
                word, _, count = word.rpartition(" ")
            if not word or not count.lstrip("-").isdecimal():
                raise UsageError(f"{path}:{number}: a line of a dictionary is a word and its count, not {line[:60]!r}")
            if word in seen and not overwrites:
                raise UsageError(f"{path}:{number}: the word {word[:60]!r} stands twice; give that of the training")
            words.append(word)
            seen.add(word)
        return cls(words)

    def write(self, path: Path) -> None:
        """Write a file that :meth:`read` reads; the counts, which are not known here, are 1."""
        seen: set[str] = set(SPECIAL)
        lines = []
        for word in self.words[len(SPECIAL) :]:
            lines.append(f"{word} 1 {OVERWRITE}\n" if word in seen else f"{word} 1\n")
            seen.add(word)
        write_whole(path, "".join(lines))

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Iterable[str]) -> list[int]:
        """Return the numbers of words, the end of the sentence included."""
        return [*(self.numbers.get(word, UNK) for word in words), EOS]

    def decode(self, tokens: Iterable[int]) -> list[str]:
        """Return the words of tokens, without the ends and the padding of sentences."""
        return [self.words[token] for token in tokens if token not in (BOS, PAD, EOS)]
