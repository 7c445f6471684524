#!/usr/bin/env python
"""Times this package's models against fairseq's own Transformer, side by side in one process.

    python benchmarks/run.py [--parts module,step,generation,scaling] [--device cpu|cuda] [--precision fp32|bf16]
                             [--threads N] [--systems a,b] [--out DIR]

    module       one attention at several lengths, against fairseq's MultiheadAttention
    step         one training step, against fairseq's `transformer`
    generation   beam search, against fairseq's `transformer`
    scaling      one attention, time and memory for lengths up to 8192, with a plot

Each part prints its table and writes {part}_{device}_{precision}.csv when it ends, in place of an older one.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path


def start() -> int:
    """Stops in one line where the interpreter lacks what is needed; else runs the command."""
    missing = [name for name in ("torch", "fairseq") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"run: error: {sys.executable} lacks {', '.join(missing)}: run scripts/setup.sh, then "
            ".venv/bin/python benchmarks/run.py ...",
            file=sys.stderr,
        )
        return 2
    logging.disable(logging.INFO)  # of fairseq, which tells what it would like to import
    root = Path(__file__).resolve().parent.parent
    sys.path[:0] = [str(root), str(root / "scripts")]
    from benchmarks.command import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
