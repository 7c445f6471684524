#!/usr/bin/env bash
# Measures this package on one GPU, in steps that a second call continues: the contract suite, the benchmarks, and trainings.
#
#   benchmarks/gpu_day.sh OUT [--minutes N] [--from DIR]    results go to OUT/results; --help lists all options
#   benchmarks/gpu_day.sh --pack DIR                        the folder that a machine without network needs
#
#   PYTHON   interpreter (default: that of scripts/setup.sh, else python3)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
if [[ -z ${PYTHON:-} ]]; then if [[ -x $PY ]]; then PYTHON=$PY; else PYTHON=python3; fi; fi
export PYTHONPATH=$REPO:$REPO/scripts${PYTHONPATH:+:$PYTHONPATH}
exec "$PYTHON" -m benchmarks.gpu_day "$@"
