"""The name by which benchmarks/gpu_day imports experiments.system.progress."""

import sys

from experiments.system import progress
from experiments.system.progress import *  # noqa: F403

sys.modules[__name__] = progress
