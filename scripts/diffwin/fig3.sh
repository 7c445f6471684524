#!/usr/bin/env bash
# Figure 3 of Nguyen et al. 2020, soft masks beside the attention to the source: draws them of the trained models of Table 1.
#
#   scripts/diffwin/fig3.sh [--scale smoke|small|full] [--out DIR] [--seeds 1] [--sentence N] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/figure.py" diffwin fig3 "$@"
