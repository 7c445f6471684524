#!/usr/bin/env bash
# Table 2 of Fan et al. 2021, summaries, CNN/DM and Gigaword: prepares the data, trains, decodes and scores its rows, configs/man/table2_*.yaml.
#
#   scripts/man/table2.sh [--rows a,b] [--seeds 1,2] [--gpus N] [--smoke] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" man table2 "$@"
