# Shell functions that the prepare_<corpus>.sh scripts share; source it after `set -euo pipefail`.
#
# A preparation writes OUT in steps. Each step fills a folder OUT/<step>.part, which is renamed to OUT/<step> when the step is
# complete: a folder without .part is finished work, and a killed preparation continues with the first step that is missing.
#
#   OUT/raw  {train,valid,test}.{src,tgt}: checked raw text (lower-cased on request; then raw/cased holds the original)
#   OUT/tok  tokenised        OUT/bpe  in subwords, with their codes        OUT/bin  for fairseq
#
# Further test sets are test1, test2, …: a preparation that has some names them in SPLITS.

PREP_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$PREP_DIR/../scripts/lib.sh"
# Where Python finds the packages corpora and experiments.
export PYTHONPATH=$PREP_DIR:$REPO/scripts${PYTHONPATH:+:$PYTHONPATH}
SPLITS="train valid test"
STEPS="raw tok bpe bin"

# Sets PYTHON: the caller's, the repository's virtual environment, or python3.
find_python() {
  if [[ -z ${PYTHON:-} ]]; then
    if [[ -x $PY ]]; then PYTHON=$PY; else PYTHON=python3; fi
  fi
  command -v "$PYTHON" >/dev/null || die "no Python at '$PYTHON': set PYTHON, or run scripts/setup.sh first"
}

# need_decimal OPTION VALUE LEAST: a number of at least LEAST.
need_decimal() {
  [[ $2 =~ ^-?[0-9]+(\.[0-9]+)?$ ]] && awk -v value="$2" -v least="$3" 'BEGIN { exit !(value + 0 >= least + 0) }' ||
    die "$1 needs a number from $3, got '$2'"
}

need_number() { [[ $2 =~ ^[1-9][0-9]*$ ]] || die "$1 needs a number from 1, got '$2'"; }

# find_file FOLDER NAME: the plain or the compressed file.
find_file() {
  if [[ -e $1/$2 ]]; then echo "$1/$2"; else echo "$1/$2.gz"; fi
}

# parse_arguments NUMBERS VALUES FLAGS ARGUMENT…: reads a preparation's command line. The first three list the names of
# its options, without dashes: those that take a number from 1, those that take any value, and those that take none. Each
# sets the variable of its name (a flag: to 1; --local sets local_dir, as `local` is a word of the shell's); what is no
# option sets out.
parse_arguments() {
  local numbers=" $1 " values=" $2 " flags=" $3 " name variable
  shift 3
  while [[ $# -gt 0 ]]; do
    name=${1#--} variable=${1#--}
    variable=${variable//-/_}
    [[ $variable != local ]] || variable=local_dir
    if [[ $1 == -h || $1 == --help ]]; then
      usage
      exit
    elif [[ $1 == --* && $numbers$values == *" $name "* ]]; then
      need_value "$@"
      if [[ $numbers == *" $name "* ]]; then need_number "$1" "$2"; fi
      printf -v "$variable" '%s' "$2"
      shift
    elif [[ $1 == --* && $flags == *" $name "* ]]; then
      printf -v "$variable" 1
    elif [[ $1 == -* ]]; then
      die "unknown option $1 (see --help)"
    else
      [[ -z $out ]] || die "one output folder, please: '$out' or '$1'?"
      out=$1
    fi
    shift
  done
  [[ -n $out ]] || die "no output folder given (see --help)"
}

# open_out OUT OPTIONS: create OUT, lock it against a second preparation, and refuse other options than those of the steps
# that are complete.
open_out() {
  local out=$1 options=$2 step complete=""
  if [[ -e $out && ! -d $out ]]; then die "$out exists and is not a folder"; fi
  if [[ -d $out && ! -e $out/options.txt && ! -e $out/.lock && -n $(ls -A "$out") ]]; then
    die "$out is not empty and was not made by this script; give another folder"
  fi
  mkdir -p "$out" || die "cannot create $out"
  exec 9>"$out/.lock"
  if command -v flock >/dev/null && ! flock -n 9; then
    say "waiting for another preparation of $out"
    flock 9
  fi
  for step in $STEPS; do if [[ -d $out/$step ]]; then complete=1; fi; done
  if [[ -z $complete ]]; then
    # What a stopped step with other options has left is of no use.
    if [[ -e $out/options.txt && $(cat "$out/options.txt") != "$options" ]]; then
      rm -rf "$out"/*.part "$out/download/unpacked"
    fi
    printf '%s\n' "$options" >"$out/options.txt.part"
    mv "$out/options.txt.part" "$out/options.txt"
  elif [[ $(cat "$out/options.txt") != "$options" ]]; then
    die "$out was prepared with '$(cat "$out/options.txt")', now asked for '$options'; give another folder or remove it"
  fi
}

# step OUT NAME TITLE COMMAND…: run COMMAND… OUT/NAME.part unless OUT/NAME is complete.
step() {
  [[ -d $1/$2 ]] || rm -rf "$1/$2.part"
  long_step "$@"
}

# long_step OUT NAME TITLE COMMAND…: a step whose command goes on with what a stopped run has left in OUT/NAME.part.
long_step() {
  local out=$1 name=$2 title=$3 begin=$SECONDS
  shift 3
  [[ -d $out/$name ]] && return
  say "$title"
  mkdir -p "$out/$name.part"
  "$@" "$out/$name.part"
  mv "$out/$name.part" "$out/$name"
  say "$title: done in $((SECONDS - begin)) s"
}

# tokenize_all RAW SRC TGT LOWERCASE(0|1) WORKERS PART: Moses tokens of every split.
tokenize_all() {
  local raw=$1 src=$2 tgt=$3 lowercase=$4 workers=$5 part=$6 options=() split lang
  [[ $lowercase == 1 ]] && options+=(--lowercase)
  for split in $SPLITS; do
    for lang in "$src" "$tgt"; do
      "$PYTHON" -m corpora.tokens.moses_tokenize --lang "$lang" --workers "$workers" ${options[@]+"${options[@]}"} \
        "$raw/$split.$lang" "$part/$split.$lang"
    done
  done
}

# learn_codes MERGES CODES TEXT…: BPE of all texts together; CODES appears when it is complete.
learn_codes() {
  local merges=$1 codes=$2
  shift 2
  [[ -e $codes ]] || "$PYTHON" -m corpora.tokens.subwords learn "$codes" --merges "$merges" "$@"
}

# apply_codes CODES TEXT OUT WORKERS: goes on where a stopped run of the same long_step was.
apply_codes() {
  "$PYTHON" -m corpora.tokens.subwords apply "$1" "$2" "$3" --workers "$4" --resume
}

# joint_bpe TOK SRC TGT MERGES [WORKERS] PART: learn on the training text of both languages, apply to every split.
joint_bpe() {
  local tok=$1 src=$2 tgt=$3 merges=$4 workers=1 part=${*: -1} split lang
  if [[ $# == 6 ]]; then workers=$5; fi
  learn_codes "$merges" "$part/codes" "$tok/train.$src" "$tok/train.$tgt"
  for split in $SPLITS; do
    for lang in "$src" "$tgt"; do
      apply_codes "$part/codes" "$tok/$split.$lang" "$part/$split.$lang" "$workers"
      [[ $(wc -l <"$part/$split.$lang") == $(wc -l <"$tok/$split.$lang") ]] ||
        die "BPE changed the number of lines of $tok/$split.$lang"
    done
  done
}

# binarize BPE SRC TGT WORKERS [OPTION…] PART: fairseq-preprocess of every split. With one dictionary, which serves both
# directions of translation; with OPTIONs of its own instead: `separate` for two dictionaries, others go to fairseq.
binarize() {
  local bpe=$1 src=$2 tgt=$3 workers=$4 part=${*: -1} options=("${@:5:$#-5}") tests="" split lang lines
  if [[ ${#options[@]} == 0 ]]; then options=(--joined-dictionary); fi
  if [[ ${options[0]} == separate ]]; then options=("${options[@]:1}"); fi
  for split in $SPLITS; do if [[ $split == test* ]]; then tests+=${tests:+,}$bpe/$split; fi; done
  "$PYTHON" -m corpora.text.watch "binarise" "$part" "$part/console.log" \
    "$PYTHON" -m fairseq_cli.preprocess --source-lang "$src" --target-lang "$tgt" ${options[@]+"${options[@]}"} \
    --trainpref "$bpe/train" --validpref "$bpe/valid" --testpref "$tests" --destdir "$part" --workers "$workers" ||
    die "fairseq-preprocess failed: $(tail -n 1 "$part/console.log")"
  for split in $SPLITS; do
    for lang in "$src" "$tgt"; do
      lines=$(($(wc -l <"$bpe/$split.$lang")))
      grep -qF "$bpe/$split.$lang: $lines sents" "$part/console.log" ||
        die "fairseq-preprocess has not made $lines sentences of $bpe/$split.$lang: see $part/console.log"
    done
  done
  rm "$part/console.log" # preprocess.log holds the same
}
