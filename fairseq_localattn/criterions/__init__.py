"""fairseq criterions of this package, registered on import: one new, and some in the place of fairseq's own."""

from . import label_smoothed, phrase_tags, unseen

__all__ = ["label_smoothed", "phrase_tags", "unseen"]
