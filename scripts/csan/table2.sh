#!/usr/bin/env bash
# Table 2 of Yang et al. 2019, three pairs of languages, base and big: prepares the data, trains, decodes and scores its rows, configs/csan/table2_*.yaml.
#
#   scripts/csan/table2.sh [--rows a,b] [--seeds 1,2] [--gpus N] [--smoke] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" csan table2 "$@"
