#!/usr/bin/env bash
# Table 1 of Yang et al. 2019, WMT14 En-De: prepares the data, trains, decodes and scores the rows of configs/csan/table1.yaml.
#
#   scripts/csan/table1.sh [--scale smoke|small|full] [--rows a,b] [--seeds 1,2] [--gpus N] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" csan table1 "$@"
