#!/usr/bin/env bash
# Table 3 of Fan et al. 2021, orders of the sublayers: prepares the data, trains, decodes and scores its rows, configs/man/table3_*.yaml.
#
#   scripts/man/table3.sh [--rows a,b] [--seeds 1,2] [--gpus N] [--smoke] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" man table3 "$@"
