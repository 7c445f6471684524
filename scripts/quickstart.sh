#!/usr/bin/env bash
# Trains a local-attention Transformer and the plain Transformer of the same size on German-English, and compares them:
# BLEU with signature, paired bootstrap, five translations, time and words/s. Stopped and started again, it continues.
#
#   scripts/quickstart.sh [--arch ARCH] [--data toy|multi30k|FOLDER] [--source LANG --target LANG] [--out DIR]
#                         [--local DIR] [--dry-run] [-h]
#
#   --arch     architecture (transformer_mma); a name without a size is taken in its small one. With transformer_mgsa,
#              which reads trees of the English, from English to German
#   --data     toy: a corpus that the repository generates, with the set-up 4 to 8 minutes on two cores (default);
#              multi30k: image captions, 29,000 pairs, three times as long;
#              FOLDER: text of your own, a sentence a line, plain or .gz: train.{de,en}, and {valid,test}.{de,en} if there
#              are any, else some of the training text is held out; trained as on multi30k
#   --source, --target  the languages of FOLDER, the endings of its files (de, en)
#   --out      where data, models and the summary go (runs/quickstart)
#   --local    folder with {train,val,test_2016_flickr}.{de,en}, for multi30k (default: $MULTI30K_DIR, the recipe's, or
#              download)
#   --dry-run  set up, and print the commands only
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
started=$(date +%s)

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# with_setup_progress SECONDS_AFTER COMMAND...: runs the set-up and prints the time left every 15 s, with the
# SECONDS_AFTER that follow. The first set-up takes about SETUP_SECONDS, a later one hardly any time.
SETUP_SECONDS=180
with_setup_progress() {
  local after=$1 begin=$SECONDS ticker status=0 parent=$$
  shift
  (
    # It ends by itself when the quick start is gone.
    while sleep 15 >/dev/null 2>&1 && kill -0 "$parent" 2>/dev/null; do
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

arch=transformer_mma data=toy out="" given="" rest=()
while [[ $# -gt 0 ]]; do
  case $1 in
    -h | --help) usage && exit ;;
    --arch | --data | --out)
      need_value "$@"
      printf -v "${1#--}" '%s' "$2"
      shift 2
      ;;
    --source | --target) need_value "$@" && rest+=("$1" "$2") && shift 2 ;;
    --local) need_value "$@" && given=$2 && shift 2 ;;
    --dry-run) rest+=(--dry-run) && shift ;;
    *) die "unknown argument '$1'; see scripts/quickstart.sh -h" ;;
  esac
done

# What can be known without the environment is checked before it is built.
table=$REPO/configs/quickstart/$data.yaml
if [[ ! -e $table && -d $data ]]; then
  data=$(cd "$data" && pwd) table=$REPO/configs/quickstart/multi30k.yaml # text of one's own
fi
datasets=$(cd "$REPO/configs/quickstart" && echo *.yaml | sed 's/\.yaml//g; s/ /, /g')
[[ -z $given || -d $given ]] || die "--local $given: no such folder; give the folder that holds the files of $data"
[[ -z $out || ! -e $out || -d $out ]] || die "--out $out is there and is not a folder"
families=$(grep -ohE '"transformer_[a-z0-9_]+["{]' "$REPO"/fairseq_localattn/variants/*.py | tr -d '"{' |
  grep -vE '_(lm|classifier|tiny|small|medium|iwslt|wmt|summarization)(_|$)' | sort -u)
known=0
for family in $families; do if [[ $arch == "$family" || $arch == "${family}_"* ]]; then known=1; fi; done
((known)) || die "--arch $arch: no such architecture; there are ${families//$'\n'/, }, each in several sizes"
[[ -e $table ]] || die "--data $data: no such data set; there are $datasets, or give a folder"

[[ -z $out ]] || rest+=(--out "$out")
[[ -z $given ]] || rest+=(--local "$given")
scale=$REPO/configs/quickstart/$(sed -n 's/^small: *//p' "$table")
minutes=$(sed -n 's/^expect_minutes: *\([0-9]*\).*/\1/p' "$scale")
with_setup_progress $((60 * ${minutes:-15} + 120)) "$REPO/scripts/setup.sh"
exec "$PY" "$REPO/scripts/quickstart.py" --arch "$arch" --data "$data" --started "$started" ${rest[@]+"${rest[@]}"}
