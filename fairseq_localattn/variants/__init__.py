"""One paper a file: options, model and named architectures. Importing this registers them all with fairseq."""

from . import csan, diffwin, man, mgsa, mma

__all__ = ["csan", "diffwin", "man", "mgsa", "mma"]
