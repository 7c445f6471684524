#!/usr/bin/env bash
# Figure 3 of Hao et al. 2019, attention in the layer above MG-SA, mean over the heads: draws it of the trained models of Table 3.
#
#   scripts/mgsa/fig3.sh [--scale smoke|small|full] [--out DIR] [--seeds 1] [--sentence N] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/figure.py" mgsa fig3 "$@"
