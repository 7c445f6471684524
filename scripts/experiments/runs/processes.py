"""The name by which benchmarks/gpu_day imports experiments.system.processes."""

import sys

from experiments.system import processes
from experiments.system.processes import *  # noqa: F403

sys.modules[__name__] = processes
