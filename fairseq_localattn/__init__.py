"""Local attention for fairseq's Transformer: ``fairseq-train --user-dir fairseq_localattn --arch transformer_csan …``.

fairseq imports this package for ``--user-dir``, in spawned workers too, before it reads any checkpoint. The import
repairs fairseq (compat/) and registers every model, task and criterion. Without fairseq installed only the attention
modules (kernels/, core/, mechanisms/) can be used.
"""

from importlib.util import find_spec

__version__ = "0.1.0"

if find_spec("fairseq") is not None:
    from .compat import repairs

    repairs.apply()
    from . import criterions, tasks, variants  # noqa: F401
