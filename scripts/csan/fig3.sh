#!/usr/bin/env bash
# Figure 3 of Yang et al. 2019, gap of BLEU by order of the n-grams: prepares the data, trains, decodes and scores the rows of configs/csan/fig3.yaml, and draws them.
#
#   scripts/csan/fig3.sh [--scale smoke|small|full] [--rows a,b] [--seeds 1,2] [--gpus N] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/figure.py" csan fig3 "$@"
