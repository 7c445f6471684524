"""The variants, one paper a module: options, model and named architectures, registered with fairseq on import."""

from . import csan, diffwin, man, mgsa, mma

__all__ = ["csan", "diffwin", "man", "mgsa", "mma"]
