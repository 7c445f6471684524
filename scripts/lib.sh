# Shell functions that the runners share; source it after `set -euo pipefail`. It holds no hyper-parameter: recipes do.

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
PY=${LOCALATTN_VENV:-$REPO/.venv}/bin/python

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*"; }

die() {
  printf '%s: error: %s\n' "$(basename "$0" .sh)" "$*" >&2
  exit 2
}

# usage: prints the comment at the head of the calling script.
usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "$0"; }

need_value() { [[ $# -ge 2 && -n $2 && $2 != --* ]] || die "$1 needs a value"; }

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# with_setup_progress SECONDS_AFTER COMMAND...: runs the set-up; besides its own messages a line every 15 s says how
# much is left of it and of the SECONDS_AFTER that follow. From nothing it takes about SETUP_SECONDS, else no time.
SETUP_SECONDS=180
with_setup_progress() {
  local after=$1 begin=$SECONDS ticker status=0 parent=$$
  shift
  (
    # One sleep at a time, and an end by itself when the quick start has gone.
    while sleep 15 && kill -0 "$parent" 2>/dev/null; do
      left=$((SETUP_SECONDS - SECONDS + begin))
      ((left > 10)) || left=10
      printf '[%s, about %s left] set-up\n' "$(clock $((SECONDS - begin)))" "$(clock $((left + after)))"
    done
  ) &
  ticker=$!
  "$@" || status=$?
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  return "$status"
}

# expand RECIPE SECTION ARCH: sets ARGV to the section's flags; stops with one line where the recipe is wrong.
expand() {
  local file
  file=$(mktemp)
  "$PY" "$REPO/scripts/yaml_to_args.py" "$1" --section "$2" --arch "$3" --null >"$file" || {
    rm -f "$file"
    exit 2
  }
  mapfile -d '' -t ARGV <"$file"
  rm -f "$file"
}

# train RECIPE ARCH SEED DATA_BIN SAVE_DIR [FLAG...]: one training; run again it continues from the last checkpoint.
train() {
  local recipe=$1 arch=$2 seed=$3 data=$4 save=$5
  shift 5
  expand "$recipe" train "$arch"
  mkdir -p "$save"
  "$PY" -m fairseq_cli.train "$data" --user-dir "$REPO/fairseq_localattn" --arch "$arch" --seed "$seed" \
    --save-dir "$save" --log-format json --log-file "$save/train.json.log" "${ARGV[@]}" "$@"
}

# generate RECIPE ARCH DATA_BIN CHECKPOINT DIR [FLAG...]: decodes the test set into DIR/generate-test.txt.
generate() {
  local recipe=$1 arch=$2 data=$3 checkpoint=$4 results=$5
  shift 5
  expand "$recipe" generate "$arch"
  "$PY" -m fairseq_cli.generate "$data" --user-dir "$REPO/fairseq_localattn" --path "$checkpoint" \
    --results-path "$results" "${ARGV[@]}" "$@"
}

# score GENERATE.txt REFERENCE [OPTION of score.py...]
score() { "$PY" "$REPO/scripts/score.py" "$1" --reference "$2" "${@:3}"; }
