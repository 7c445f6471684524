"""The variants, one paper a module: options, model and named architectures, registered with fairseq on import."""

from . import blocksan, csan, diffwin, hybrid, localness, man, mgsa, mma, positions, qanet, relpos

__all__ = ["blocksan", "csan", "diffwin", "hybrid", "localness", "man", "mgsa", "mma", "positions", "qanet", "relpos"]
