#!/usr/bin/env python
"""Compare the speed and memory of this package's models with fairseq's own Transformer, interleaved in one process.

    python benchmarks/run.py [--parts module,step,long,generation,inference,scaling,start,optimizer,training,
                             launches] [--device cpu|cuda]
                             [--precision fp32|bf16] [--threads N] [--systems a,b] [--out DIR]

    module       one attention at several lengths, against fairseq's MultiheadAttention
    step         one training step, against fairseq's `transformer`
    long         one training step on pairs of 1,024 and 2,048 tokens, against fairseq's `transformer`
    generation   beam search, against fairseq's `transformer`
    inference    beam search without fairseq, in fp32, bf16 and int8, against fairseq's generator; and CTranslate2's,
                 where it is installed
    scaling      one attention, time and memory for lengths up to 8192, with a plot
    start        whole processes, with and without --user-dir, to the error of a missing data folder
    optimizer    norm, optimizer and clearing of gradients: this package's Adam, against fairseq's
    training     updates by fairseq's trainer, with graphs and without, against fairseq's `transformer`
    launches     operations of a step that start a kernel on a GPU, counted without one

Each part ends by printing its table and replacing the file {part}_{device}_{precision}.csv.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path


def start() -> int:
    """Run the command, or print one line if the interpreter lacks a requirement. Returns the exit status."""
    missing = [name for name in ("torch", "fairseq") if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"run: error: {sys.executable} lacks {', '.join(missing)}: run scripts/setup.sh, then "
            ".venv/bin/python benchmarks/run.py ...",
            file=sys.stderr,
        )
        return 2
    logging.disable(logging.INFO)  # fairseq logs optional packages that it does not find
    root = Path(__file__).resolve().parent.parent
    sys.path[:0] = [str(root), str(root / "scripts")]
    from benchmarks.command import main

    return main()


if __name__ == "__main__":
    sys.exit(start())
