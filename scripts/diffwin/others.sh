#!/usr/bin/env bash
# Beside the tables of Nguyen et al. 2020, SST with five classes: prepares the data, trains, decodes and scores the rows of configs/diffwin/others.yaml.
#
#   scripts/diffwin/others.sh [--scale smoke|small|full] [--rows a,b] [--seeds 1,2] [--gpus N] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" diffwin others "$@"
