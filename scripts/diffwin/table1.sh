#!/usr/bin/env bash
# Table 1 of Nguyen et al. 2020, translation, WMT16 En-De and WMT14 En-Fr: prepares the data, trains, decodes and scores the rows of configs/diffwin/table1.yaml.
#
#   scripts/diffwin/table1.sh [--scale smoke|small|full] [--rows a,b] [--seeds 1,2] [--gpus N] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" diffwin table1 "$@"
