"""BERT's uncased WordPiece tokenizer: its vocabulary as fairseq's dictionary, and lines of text in pieces or words.

vocab.txt has one entry a line as in BERT's, dict.txt is fairseq's dictionary with as many symbols: BERT's four
special entries become fairseq's four ([CLS] <s>, [PAD] <pad>, [SEP] </s>, [UNK] <unk>), and all others follow in their
order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.errors import DataError
from corpora.text.lines import SYMBOLS, read_bytes, read_lines, write_lines

if TYPE_CHECKING:
    from tokenizers import BertWordPieceTokenizer

SPECIAL = {"[CLS]": "<s>", "[PAD]": "<pad>", "[SEP]": "</s>", "[UNK]": "<unk>"}
LEARNED_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PREFIX = "##"
MAX_ALPHABET = 1000  # characters of a learned vocabulary, as in the tokenizers package
MOST_UNKNOWN = 0.1  # share of the pieces; with more, the vocabulary is that of another language


def read_vocabulary(path: Path) -> list[str]:
    """Return the entries of a vocabulary file, one a line, in order.

    Raises DataError for entries that fairseq cannot have as words, for duplicates, for capital letters (which only a
    cased vocabulary has), and where special entries or pieces with ## are missing.
    """
    seen: dict[str, int] = {}
    for number, text in read_lines(path, open_end=True):
        entry = text.rstrip("\r")
        where = f"{path}:{number}"
        if not entry or entry.split() != [entry]:
            raise DataError(f"{where}: a vocabulary has one entry without spaces a line, found '{entry}'")
        if entry in seen:
            raise DataError(f"{where}: {entry} is in line {seen[entry]} already")
        if entry in (*SYMBOLS, "<unk>"):
            raise DataError(f"{where}: {entry} is a symbol of fairseq's; remove the entry")
        if re.search("[A-Z]", entry) and not re.fullmatch(r"\[\w+\]", entry):
            raise DataError(f"{where}: {entry} has capital letters: give the vocabulary of an uncased model")
        seen[entry] = number
    for special in SPECIAL:
        if special not in seen:
            raise DataError(f"{path}: has no {special}: this is no vocabulary of BERT's WordPiece tokenizer")
    if not any(entry.startswith(PREFIX) and entry != PREFIX for entry in seen):
        raise DataError(f"{path}: has no entry with {PREFIX}: this is no vocabulary of BERT's WordPiece tokenizer")
    return list(seen)


def write_vocabulary(entries: Sequence[str], part: Path) -> None:
    """Write vocab.txt and dict.txt. All counts in the dictionary are 1, so that its order stays."""
    write_lines(part / "vocab.txt", entries)
    # fairseq adds its four symbols to every dictionary that it reads.
    write_lines(part / "dict.txt", (f"{entry} 1" for entry in entries if entry not in SPECIAL))
    print(f"vocabulary: {len(entries):,} entries", flush=True)


def _load(vocabulary: Path) -> BertWordPieceTokenizer:
    """Return the tokenizer, which treats a special entry in the text, such as "[SEP]", as text."""
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(str(vocabulary))
    tokenizer._tokenizer.encode_special_tokens = True  # the wrapper has no such option
    return tokenizer


def learn(size: int, texts: Sequence[Path]) -> list[str]:
    """Return a vocabulary of at most `size` entries, learned on all lines and reproducible.

    Raises DataError where not even the characters fit in.
    """
    from tokenizers import BertWordPieceTokenizer

    def lines() -> Iterator[str]:
        for path in texts:
            yield from (text for _, text in read_lines(path))

    tokenizer = BertWordPieceTokenizer()
    normalizer = tokenizer._tokenizer.normalizer  # the wrapper's own method fails before tokenizers 0.23
    characters: Counter[str] = Counter()
    for line in lines():
        characters.update(normalizer.normalize_str(line))
    kept = sorted(char for char, _ in characters.most_common(MAX_ALPHABET) if not char.isspace())
    # The pieces of one character are given as special entries to fix their order. Otherwise it is that of a hash table,
    # different in each run, and decides between pairs of pieces that are equally frequent.
    given = [*LEARNED_SPECIAL, *(PREFIX + char for char in kept)]
    if size < len(given) + len(kept):
        raise DataError(f"{texts[0]}: a vocabulary of {size} has no room for its {len(kept)} characters; "
                        f"give at least {len(given) + len(kept)}")  # fmt: skip
    tokenizer.train_from_iterator(
        lines(), vocab_size=size, limit_alphabet=MAX_ALPHABET, special_tokens=given, show_progress=False
    )
    numbers = tokenizer.get_vocab()
    if len(numbers) < size:
        print(f"vocabulary: the text has no more than {len(numbers):,} of {size:,} entries", flush=True)
    return sorted(numbers, key=lambda entry: numbers[entry])


def encoder(vocabulary: Path, max_words: int = 0) -> Callable[[str], str]:
    """Return a function from a line to its pieces, as words of fairseq's dictionary.

    max_words: of its first words, 0: of all.
    """
    tokenizer = _load(vocabulary)

    def encode(line: str) -> str:
        encoding = tokenizer.encode(line, add_special_tokens=False)
        numbered = zip(encoding.tokens, encoding.word_ids, strict=True)
        tokens = [token for token, word in numbered if not max_words or word < max_words]
        return " ".join("<unk>" if token == "[UNK]" else token for token in tokens)

    return encode


def splitter(vocabulary: Path) -> Callable[[str], str]:
    """Return a function from a line to the words that `encoder` cuts: lower-cased, no accents, punctuation apart."""
    inner = _load(vocabulary)._tokenizer  # the wrapper lacks these methods
    normalise, split = inner.normalizer.normalize_str, inner.pre_tokenizer.pre_tokenize_str
    return lambda line: " ".join(word for word, _ in split(normalise(line)))


def check_known(source: Path, encoded: Path) -> None:
    """Print the number of pieces in a file, and raise DataError where too many of them are unknown."""
    lines = total = unknown = 0
    for _, line in read_bytes(encoded):
        pieces = line.split(b" ")
        lines, total, unknown = lines + 1, total + len(pieces), unknown + pieces.count(b"<unk>")
    found = f"{source.name}: {lines:,} lines, {total:,} pieces, {unknown / total:.2%} of them unknown"
    if unknown > MOST_UNKNOWN * total:
        raise DataError(f"{source}: {found}: the vocabulary is not that of this text; give another with --vocab")
    print(found, flush=True)
