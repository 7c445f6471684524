"""fairseq's tasks that the plugin adds. Importing this registers them."""

from . import translation_with_phrases

__all__ = ["translation_with_phrases"]
