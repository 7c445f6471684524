#!/usr/bin/env python
"""Probe the encoder of a row of Table 5 of Hao et al. 2019. Usage: --help, or experiments/measure/probe.py."""

import sys

from experiments import needs  # noqa: F401  first: the other imports need what it looks for

# isort: split
from experiments.measure.probe import main

if __name__ == "__main__":
    sys.exit(main())
