"""fairseq tasks of this package, registered on import."""

from . import translation_with_phrases

__all__ = ["translation_with_phrases"]
