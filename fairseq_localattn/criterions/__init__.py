"""fairseq criterions of this package, registered on import: one new, and one in the place of fairseq's own."""

from . import label_smoothed, phrase_tags

__all__ = ["label_smoothed", "phrase_tags"]
