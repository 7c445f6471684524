# Shell functions that the prepare_<corpus>.sh scripts share; source it after `set -euo pipefail`.
#
# A preparation writes OUT in steps. Each step fills a folder OUT/<step>.part, which is renamed to OUT/<step> when the step
# is complete. A killed preparation continues with the first step that is missing.
#
#   OUT/raw  {train,valid,test}.{src,tgt}: checked raw text (lower-cased on request; raw/cased then has the original)
#   OUT/tok  tokenised        OUT/bpe  in subwords, with their codes        OUT/bin  for fairseq
#
# The functions read these variables, which the command line or the preparation sets: out, workers, local_dir (--local),
# no_checksums; src and tgt, the languages; SPLITS, with more test sets test1, test2, … where there are some; STEPS.
# The last argument of a function that fills a step's folder is that folder, PART.

PREP_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$PREP_DIR/../scripts/lib.sh"
# Where Python finds the package corpora.
export PYTHONPATH=$PREP_DIR${PYTHONPATH:+:$PYTHONPATH}
SPLITS="train valid test"
STEPS="raw tok bpe bin"
out="" local_dir="" no_checksums=0 workers=$(nproc 2>/dev/null || echo 1)

# find_python: set PYTHON to the caller's, that of the repository's virtual environment, or python3.
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

# need_number OPTION VALUE, need_count OPTION VALUE: a number from 1; from 0.
need_number() { [[ $2 =~ ^[1-9][0-9]*$ ]] || die "$1 needs a number from 1, got '$2'"; }
need_count() { [[ $2 =~ ^(0|[1-9][0-9]*)$ ]] || die "$1 needs a number from 0, got '$2'"; }

# need_folder DIR WHAT: DIR must exist, if it is given, until OUT/raw or OUT/tok is complete.
need_folder() {
  [[ -z $1 || -d $1 || -d $out/raw || -d $out/tok ]] || die "no folder $1: give the folder with $2 with --local DIR"
}

# source_of DIR: print the origin of the text, for the options of OUT.
source_of() { if [[ -n $1 ]]; then realpath -m "$1"; else echo download; fi; }

# find_file FOLDER NAME: print the path of the file, or of NAME.gz where only that can exist.
find_file() {
  if [[ -e $1/$2 ]]; then echo "$1/$2"; else echo "$1/$2.gz"; fi
}

# parse_arguments NUMBERS VALUES FLAGS ARGUMENT…: read a preparation's command line. The first three list the names of its
# options, without dashes: those with a number from 1, those with any value, and those without. Each sets the variable of
# its name (a flag: to 1; --local sets local_dir, as `local` is a keyword); the argument that is no option sets out. All
# preparations have --max-expansion N: see corpora/text/expansion.py.
parse_arguments() {
  local numbers=" $1 max-expansion " values=" $2 " flags=" $3 " name variable max_expansion=""
  shift 3
  while [[ $# -gt 0 ]]; do
    name=${1#--} variable=${1#--}
    variable=${variable//-/_}
    [[ $variable != local ]] || variable=local_dir
    if [[ $1 == -h || $1 == --help ]]; then
      usage
      echo "Of every preparation: --max-expansion N, for an archive or .gz file that you trust, and that unpacks to N times its size."
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
  [[ -z $max_expansion ]] || export LOCALATTN_MAX_EXPANSION=$max_expansion
  [[ -n $out ]] || die "no output folder given (see --help)"
  [[ $out != *,* ]] || die "$out: no comma in the output folder, please: fairseq-preprocess takes it for the end of a name"
}

# open_out OPTIONS [FILE…]: create OUT, lock it against a second preparation, and refuse options other than those of its
# complete steps, and a FILE, of the user's own text, that is another one by now.
open_out() {
  local options=$1 step complete="" texts="" file changed
  for file in "${@:2}"; do if [[ -f $file && -r $file ]]; then texts+="$(cksum <"$file") $(realpath -m "$file")"$'\n'; fi; done
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
    # Remove what a stopped step with other options or texts has left.
    if [[ -e $out/options.txt && $(cat "$out/options.txt") != "$options" ]] ||
      [[ -e $out/texts.txt && $(cat "$out/texts.txt") != "${texts%$'\n'}" ]]; then
      rm -rf "$out"/*.part "$out/download/unpacked"
    fi
    if [[ -n $texts ]]; then printf '%s' "$texts" >"$out/texts.txt"; fi
    printf '%s\n' "$options" >"$out/options.txt.part"
    mv "$out/options.txt.part" "$out/options.txt"
  elif [[ $(cat "$out/options.txt") != "$options" ]]; then
    die "$out was prepared with '$(cat "$out/options.txt")', now asked for '$options'; give another folder or remove it"
  elif [[ -n $texts && -e $out/texts.txt ]]; then
    changed=$(grep -Fvxf "$out/texts.txt" <<<"${texts%$'\n'}" | head -n 1) || true
    [[ -z $changed ]] || die "${changed#* * } is not the text of which $out was prepared; give another folder or remove it"
  fi
}

# step NAME TITLE COMMAND…: run COMMAND… OUT/NAME.part unless OUT/NAME is complete.
step() {
  [[ -d $out/$1 ]] || rm -rf "$out/$1.part"
  long_step "$@"
}

# long_step NAME TITLE COMMAND…: a step whose command continues what a stopped run has left in OUT/NAME.part.
long_step() {
  local name=$1 title=$2 begin=$SECONDS
  shift 2
  [[ -d $out/$name ]] && return
  say "$title"
  mkdir -p "$out/$name.part"
  "$@" "$out/$name.part"
  mv "$out/$name.part" "$out/$name"
  say "$title: done in $((SECONDS - begin)) s"
}

# tokenize_all RAW LOWERCASE(0|1) PART: Moses tokens of every split.
tokenize_all() {
  local raw=$1 lowercase=$2 part=$3 options=() split lang
  [[ $lowercase == 1 ]] && options+=(--lowercase)
  for split in $SPLITS; do
    for lang in "$src" "$tgt"; do
      tokenize_split "$raw" "$split" "$lang" ${options[@]+"${options[@]}"} "$part"
    done
  done
}

# tokenize_split TEXT SPLIT LANG [OPTION…] PART: Moses tokens of TEXT/SPLIT.LANG; continues a stopped run.
tokenize_split() {
  "$PYTHON" -m corpora.tokens.moses_tokenize --lang "$3" --workers "$workers" --resume "${@:4:$#-4}" \
    "$1/$2.$3" "${*: -1}/$2.$3"
}

# learn_codes MERGES CODES TEXT…: BPE of all texts together; CODES appears when it is complete.
learn_codes() {
  local merges=$1 codes=$2
  shift 2
  [[ -e $codes ]] || "$PYTHON" -m corpora.tokens.subwords learn "$codes" --merges "$merges" "$@"
}

# apply_codes CODES TEXT FILE: TEXT in subwords; continues a stopped run.
apply_codes() { "$PYTHON" -m corpora.tokens.subwords apply "$1" "$2" "$3" --workers "$workers" --resume; }

# learn_pieces PIECES MODEL TEXT…: a SentencePiece model of all texts together. The share of characters that it must know is
# the one that SentencePiece's documentation advises.
learn_pieces() {
  local pieces=$1 model=$2 coverage=0.9995
  shift 2
  if [[ $# == 1 && $1 == *.en ]]; then coverage=1.0; fi
  [[ -e $model ]] ||
    "$PYTHON" -m corpora.tokens.sentencepieces train "$model" "$@" --pieces "$pieces" --coverage "$coverage"
}

# apply_pieces MODEL TEXT FILE: TEXT in pieces; continues a stopped run.
apply_pieces() { "$PYTHON" -m corpora.tokens.sentencepieces apply "$1" "$2" "$3" --workers "$workers" --resume; }

# model_of KIND SIDES LANG: print the name of the file from which the text of LANG gets its subwords; see make_subwords.
model_of() {
  case $1-$2 in
    codes-joint) echo codes ;;
    pieces-joint) echo sentencepiece.model ;;
    codes-*) echo "$3.codes" ;;
    pieces-*) echo "$3.model" ;;
  esac
}

# make_subwords KIND SIDES TEXT SIZE PART: a model of the training text, and every split in its subwords. KIND: codes (BPE with
# SIZE merges) or pieces (SentencePiece, SIZE pieces). SIDES: joint, of both languages together, or separate.
make_subwords() {
  local kind=$1 sides=$2 text=$3 size=$4 part=$5 lang split
  if [[ $sides == joint ]]; then
    "learn_$kind" "$size" "$part/$(model_of "$kind" joint "")" "$text/train.$src" "$text/train.$tgt"
  else
    for lang in "$src" "$tgt"; do "learn_$kind" "$size" "$part/$(model_of "$kind" separate "$lang")" "$text/train.$lang"; done
  fi
  for split in $SPLITS; do
    for lang in "$src" "$tgt"; do
      "apply_$kind" "$part/$(model_of "$kind" "$sides" "$lang")" "$text/$split.$lang" "$part/$split.$lang"
    done
  done
}

# joint_bpe TOK MERGES PART: codes of the training text of both languages, and every split in subwords.
joint_bpe() { make_subwords codes joint "$@"; }

# preprocess PART OPTION…: run fairseq-preprocess; its output is PART/console.log. The plugin mends offsets beyond 2 GB.
preprocess() {
  local part=$1
  shift
  mkdir -p "$part"
  "$PYTHON" -m corpora.text.watch "binarise" "$part" "$part/console.log" \
    "$PYTHON" -m fairseq_cli.preprocess "$@" --destdir "$part" --workers "$workers" \
    --user-dir "${PREP_DIR%/*}/fairseq_localattn" ||
    die "fairseq-preprocess failed: $(tail -n 1 "$part/console.log")"
}

# check_sentences FILE PART: fairseq-preprocess must have made as many sentences as FILE has lines.
check_sentences() {
  local lines=$(($(wc -l <"$1")))
  grep -qF "$1: $lines sents" "$2/console.log" ||
    die "fairseq-preprocess has not made $lines sentences of $1: see $2/console.log"
}

# binarize BPE [OPTION…] PART: fairseq-preprocess of every split, with one dictionary, which serves both directions of
# translation; with OPTIONs for fairseq instead; `separate` as the first one makes two dictionaries.
binarize() {
  local bpe=$1 part=${*: -1} options=("${@:2:$#-2}") tests="" split lang
  if [[ ${#options[@]} == 0 ]]; then options=(--joined-dictionary); fi
  if [[ ${options[0]} == separate ]]; then options=("${options[@]:1}"); fi
  for split in $SPLITS; do if [[ $split == test* ]]; then tests+=${tests:+,}$bpe/$split; fi; done
  preprocess "$part" --source-lang "$src" --target-lang "$tgt" ${options[@]+"${options[@]}"} \
    --trainpref "$bpe/train" --validpref "$bpe/valid" --testpref "$tests"
  for split in $SPLITS; do
    for lang in "$src" "$tgt"; do check_sentences "$bpe/$split.$lang" "$part"; done
  done
  rm "$part/console.log" # preprocess.log has the same content
}
