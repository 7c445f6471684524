"""Local attention for fairseq's Transformer: ``fairseq-train --user-dir fairseq_localattn --arch transformer_csan …``.

fairseq imports this package for ``--user-dir``, in spawned workers too, before it reads any checkpoint. The import
repairs fairseq (compat/) and registers every model, task and criterion. Without fairseq installed the attention modules
(kernels/, core/, mechanisms/, grammar/) can be used, and ``attention``, which needs torch alone:

>>> fairseq_localattn.attention("2*local(window=8) + 6*global", embed_dim, num_heads, batch_first=True)
"""

from importlib.util import find_spec

from .grammar.torch_module import attention

__version__ = "0.1.0"
__all__ = ["attention"]

if find_spec("fairseq") is not None:
    from .compat import repairs

    repairs.apply()
    from . import criterions, tasks, variants  # noqa: F401
