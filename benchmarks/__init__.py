"""Speed and memory of this package's models against fairseq's own Transformer: see run.py."""

import os

# Else torch's profiler, which counts the memory on CPUs, writes to stderr at each start. Read when torch is loaded.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")
