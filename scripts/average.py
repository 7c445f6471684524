#!/usr/bin/env python
"""Average the parameters of checkpoints of one training. Usage: --help, or experiments/runs/averaging.py."""

import sys

from experiments import needs  # noqa: F401  first: the other imports need what it looks for

# isort: split
from experiments.runs.averaging import main

if __name__ == "__main__":
    sys.exit(main())
