# What prepare_<data>.sh and parse_text.sh source: runs the preparation of that name in corpora/preparations/.
set -euo pipefail
PREP_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$PREP_DIR/../scripts/lib.sh"
if [[ -z ${PYTHON:-} ]]; then
  if [[ -x $PY ]]; then PYTHON=$PY; else PYTHON=python3; fi
fi
command -v "$PYTHON" >/dev/null || die "no Python at '$PYTHON': set PYTHON, or run scripts/setup.sh first"
export PYTHON PYTHONPATH=$PREP_DIR:$REPO${PYTHONPATH:+:$PYTHONPATH} # where corpora and fairseq_localattn are
exec "$PYTHON" -m corpora.preparations.main "$(basename "${BASH_SOURCE[1]}" .sh)" "$@"
