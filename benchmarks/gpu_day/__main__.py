"""Run the command: python -m benchmarks.gpu_day, which benchmarks/gpu_day.sh starts."""

import importlib.util
import sys

if importlib.util.find_spec("yaml") is None:  # before the imports that need it
    sys.exit(f"gpu_day: error: {sys.executable} lacks yaml: install PyYAML, or choose another by PYTHON=…")

from .command import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
