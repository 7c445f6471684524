"""fairseq's criterions that the plugin adds. Importing this registers them."""

from . import label_smoothed, phrase_tags

__all__ = ["label_smoothed", "phrase_tags"]
