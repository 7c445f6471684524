#!/usr/bin/env python
"""Score what a model has written. Usage: --help, or experiments/measure/command.py."""

import sys

from experiments import needs  # noqa: F401  first: the other imports need what it looks for

# isort: split
from experiments.measure.command import main

if __name__ == "__main__":
    sys.exit(main())
