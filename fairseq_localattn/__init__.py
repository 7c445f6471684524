"""Local attention for fairseq's Transformer: ``fairseq-train --user-dir fairseq_localattn --arch transformer_csan …``.

fairseq imports this package for ``--user-dir``, also in spawned workers and before it reads any checkpoint; importing
it registers every model. Without fairseq installed the attention modules alone can be imported.
"""

from importlib.util import find_spec

__version__ = "0.1.0"

if find_spec("fairseq") is not None:
    from .compat import repairs

    repairs.apply()
    from . import criterions, tasks, variants  # noqa: F401
