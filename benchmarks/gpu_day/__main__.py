"""Run the command: python -m benchmarks.gpu_day, which benchmarks/gpu_day.sh starts."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
