"""fairseq criterions of this package, registered on import: one new, and one in the place of fairseq's own."""

from ..registration import register

register()

from . import label_smoothed, phrase_tags  # noqa: E402

__all__ = ["label_smoothed", "phrase_tags"]
