#!/usr/bin/env bash
# Table 3 of Cui et al. 2019, encoders without positions: prepares the data, trains, decodes and scores its rows, configs/mma/table3_*.yaml.
#
#   scripts/mma/table3.sh [--rows a,b] [--seeds 1,2] [--gpus N] [--smoke] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" mma table3 "$@"
