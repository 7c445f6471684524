#!/usr/bin/env bash
# Table 4 of Hao et al. 2019, two pairs of languages, base and big: prepares the data, trains, decodes and scores the rows of configs/mgsa/table4.yaml.
#
#   scripts/mgsa/table4.sh [--scale smoke|small|full] [--rows a,b] [--seeds 1,2] [--gpus N] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" mgsa table4 "$@"
