#!/usr/bin/env bash
# Table 2 of Nguyen et al. 2020, where windows stand: prepares the data, trains, decodes and scores the rows of configs/diffwin/table2.yaml.
#
#   scripts/diffwin/table2.sh [--scale smoke|small|full] [--rows a,b] [--seeds 1,2] [--gpus N] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" diffwin table2 "$@"
