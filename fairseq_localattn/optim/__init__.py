"""fairseq optimizers of this package, registered on import."""

from ..registration import register

register()

from . import adam  # noqa: E402

__all__ = ["adam"]
