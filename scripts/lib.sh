# Shell functions that the scripts here and in data-prep share.

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
VENV=${LOCALATTN_VENV:-.venv}
[[ $VENV == /* ]] || VENV=$REPO/$VENV # as setup.sh takes it
PY=$VENV/bin/python

die() {
  printf '%s: error: %s\n' "$(basename "$0" .sh)" "$*" >&2
  exit 2
}

# usage: prints the comment at the head of the calling script.
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "$0"; }

# need_value OPTION [VALUE...]: the option must have a value.
need_value() { [[ $# -ge 2 && -n $2 && $2 != --* ]] || die "$1 needs a value"; }

# start NAME WORD...: starts scripts/NAME.py with the environment's Python and these words.
start() {
  [[ -x $PY ]] || die "no Python at $PY: run scripts/setup.sh first"
  exec "$PY" "$REPO/scripts/$1.py" "${@:2}"
}
