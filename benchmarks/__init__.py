"""Speed and memory of this package's models against fairseq's own Transformer: see run.py."""

import os
import sys
from pathlib import Path

# Else torch's profiler, which counts the memory on CPUs, writes to stderr at each start. Read when torch is loaded.
os.environ.setdefault("KINETO_LOG_LEVEL", "6")
# What the runners share: progress, files that are written whole, the commit, the machine's name.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
