#!/usr/bin/env python
"""Train and compare two systems, after scripts/quickstart.sh. Usage: --help, or experiments/engine/quickstart.py."""

import sys

from experiments import needs  # noqa: F401  first: the other imports need what it looks for

# isort: split
from experiments.engine.quickstart import main

if __name__ == "__main__":
    sys.exit(main())
