"""Local attention for fairseq's Transformer: ``fairseq-train --user-dir fairseq_localattn --arch transformer_csan …``.

fairseq imports this package for ``--user-dir``, in spawned workers too, before it reads any checkpoint. Where fairseq
is imported, before the package or after it, the package repairs fairseq (compat/) and registers every model, task and
criterion; so does ``register()``. ``attention`` and ``attention_function`` need torch and NumPy alone:

>>> fairseq_localattn.attention("2*local(window=8) + 6*global", embed_dim, num_heads, batch_first=True)
>>> fairseq_localattn.attention_function("local(window=8)").register("local8")  # in Hugging Face's transformers
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .registration import register, register_with_fairseq

if TYPE_CHECKING:
    from .grammar.attention_function import attention_function
    from .grammar.torch_module import attention

__version__ = "1.0.0"
__all__ = ["attention", "attention_function", "register"]
# Names that are imported, and torch with them, when they are asked for → their modules.
_LATER = {"attention": "torch_module", "attention_function": "attention_function"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f".grammar.{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_with_fairseq()
