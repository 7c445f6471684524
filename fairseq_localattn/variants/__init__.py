"""The variants, one paper a module: options, model and named architectures, registered with fairseq on import."""

from . import csan, diffwin, man, mgsa, mma, positions, relpos

__all__ = ["csan", "diffwin", "man", "mgsa", "mma", "positions", "relpos"]
