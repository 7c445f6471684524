"""fairseq's criterions that the plugin adds. Importing this registers them."""

from . import phrase_tags

__all__ = ["phrase_tags"]
