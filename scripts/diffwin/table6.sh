#!/usr/bin/env bash
# Table 6 of Nguyen et al. 2020, language models, One Billion Words: prepares the data, trains, decodes and scores the rows of configs/diffwin/table6.yaml.
#
#   scripts/diffwin/table6.sh [--scale smoke|small|full] [--rows a,b] [--seeds 1,2] [--gpus N] [--dry-run] ...    (--help: all options)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
[[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
exec "$PY" "$REPO/scripts/table.py" diffwin table6 "$@"
