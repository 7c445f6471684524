"""Local attention for fairseq's Transformer: ``fairseq-train --user-dir fairseq_localattn --arch transformer_csan …``.

fairseq imports this package for ``--user-dir``, in spawned workers too, before it reads any checkpoint. The import
repairs fairseq (compat/) and registers every model, task and criterion. Without fairseq installed the attention modules
(kernels/, core/, mechanisms/, grammar/) can be used, and ``attention``, which needs torch alone:

>>> fairseq_localattn.attention("2*local(window=8) + 6*global", embed_dim, num_heads, batch_first=True)
"""

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .grammar.torch_module import attention

__version__ = "0.1.0"
__all__ = ["attention"]


def __getattr__(name: str) -> Any:
    """Import ``attention``, and with it torch, when it is asked for."""
    if name == "attention":
        from .grammar.torch_module import attention

        return attention
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def register() -> None:
    """Repair fairseq, and register every model, task and criterion; do nothing where fairseq is not installed."""
    if find_spec("fairseq") is not None:
        from .compat import repairs

        repairs.apply()
        from . import criterions, tasks, variants  # noqa: F401


# `python -m fairseq_localattn` registers where it lists the models, so that its --path and --help need no torch.
# While Python looks for the module of -m, sys.argv begins with "-m", and sys.orig_argv names it before its arguments.
if not (sys.argv[:1] == ["-m"] and sys.orig_argv[-len(sys.argv)] == __name__):
    register()
