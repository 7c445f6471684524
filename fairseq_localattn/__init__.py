"""Local attention for fairseq's Transformer: ``fairseq-train --user-dir fairseq_localattn --arch transformer_csan …``.

fairseq imports this package for ``--user-dir``, in spawned workers too, before it reads any checkpoint. Where fairseq
is imported, before the package or after it, the package repairs fairseq (compat/) and registers every model, task and
criterion; so does ``register()``. ``attention`` needs torch and NumPy alone:

>>> fairseq_localattn.attention("2*local(window=8) + 6*global", embed_dim, num_heads, batch_first=True)
"""

from typing import TYPE_CHECKING, Any

from .registration import register, register_with_fairseq

if TYPE_CHECKING:
    from .grammar.torch_module import attention

__version__ = "1.0.0"
__all__ = ["attention", "register"]


def __getattr__(name: str) -> Any:
    """Import ``attention``, and with it torch, when it is asked for."""
    if name == "attention":
        from .grammar.torch_module import attention

        return attention
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_with_fairseq()
