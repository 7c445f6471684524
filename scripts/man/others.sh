#!/usr/bin/env bash
# Beside the tables of Fan et al. 2021, a pre-norm Transformer: prepares the data, trains, decodes and scores the rows of configs/man/others.yaml.
#
#   scripts/man/others.sh [--scale smoke|small|full] [--rows a,b] [--seeds 1,2] [--gpus N] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" man others "$@"
