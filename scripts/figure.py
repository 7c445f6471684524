#!/usr/bin/env python
"""Draw a figure of a paper from finished runs. Usage: --help, or experiments/figures/command.py."""

import sys

from experiments import needs  # noqa: F401  first: the other imports need what it looks for

# isort: split
from experiments.figures.command import main

if __name__ == "__main__":
    sys.exit(main())
