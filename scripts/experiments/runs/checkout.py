"""The name by which benchmarks/gpu_day imports experiments.system.checkout."""

import sys

from experiments.system import checkout
from experiments.system.checkout import *  # noqa: F403

sys.modules[__name__] = checkout
