#!/usr/bin/env python
"""Train, decode and score the rows of a paper's table. Usage: --help, or experiments/engine/table.py."""

import sys

from experiments import needs  # noqa: F401  first: the other imports need what it looks for

# isort: split
from experiments.engine.table import main

if __name__ == "__main__":
    sys.exit(main())
