#!/usr/bin/env python
"""Run one process of a fairseq training that torchrun starts: experiments/runs/worker.py."""

import sys

from experiments.runs.worker import main

if __name__ == "__main__":
    sys.exit(main())
