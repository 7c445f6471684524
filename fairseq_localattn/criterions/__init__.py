"""Criterions that the plugin adds to fairseq's, or puts in the place of one. Importing this registers them."""

from . import label_smoothed, phrase_tags

__all__ = ["label_smoothed", "phrase_tags"]
