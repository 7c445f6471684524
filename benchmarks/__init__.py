"""Benchmarks of speed and memory against fairseq's own Transformer: see run.py."""

import os

# Silences torch's profiler, which counts memory on CPUs. The variable is read when torch is loaded.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")
