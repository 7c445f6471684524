"""fairseq criterions of this package, registered on import: one new, and some in the place of fairseq's own."""

from ..registration import register

register()

from . import label_smoothed, phrase_tags, unseen  # noqa: E402

__all__ = ["label_smoothed", "phrase_tags", "unseen"]
