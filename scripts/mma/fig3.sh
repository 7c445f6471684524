#!/usr/bin/env bash
# Figure 3 of Cui et al. 2019, weights by layer and kind of head: draws them of the trained model of Table 2.
#
#   scripts/mma/fig3.sh [--scale smoke|small|full] [--out DIR] [--seeds 1] [--sentence N] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/figure.py" mma fig3 "$@"
