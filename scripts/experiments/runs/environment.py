"""The name by which benchmarks/gpu_day imports experiments.system.environment."""

import sys

from experiments.system import environment
from experiments.system.environment import *  # noqa: F403

sys.modules[__name__] = environment
