#!/usr/bin/env bash
# Table 1 of Hao et al. 2019, how words make a phrase: prepares the data, trains, decodes and scores its rows, configs/mgsa/table1_*.yaml.
#
#   scripts/mgsa/table1.sh [--rows a,b] [--seeds 1,2] [--gpus N] [--smoke] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" mgsa table1 "$@"
