# Shell functions of the preparations with one text a line, with labels (classification) or without (language models); source it
# after lib.sh. Their OUT:
#
#   OUT/raw   {train,valid,test}.text and .label, aligned; labels.txt: the labels in order     (language models: {…}.LANG)
#   OUT/tok   Moses-tokenised, where the source is not tokenised      OUT/dict  dict.txt, the words of the training text
#   OUT/bin   input0/ and label/ for fairseq's task sentence_prediction                       (language models: no folders)

STEPS="raw tok dict bin"

# need_count OPTION VALUE: a number from 0.
need_count() { [[ $2 =~ ^(0|[1-9][0-9]*)$ ]] || die "$1 needs a number from 0, got '$2'"; }

# need_folder DIR OUT WHAT: DIR, where it is given, must exist as long as OUT/raw is not complete.
need_folder() { [[ -z $1 || -d $1 || -d $2/raw ]] || die "no folder $1: give the folder with $3 with --local DIR"; }

# source_of DIR: where the text comes from, for the options of OUT.
source_of() { if [[ -n $1 ]]; then realpath -m "$1"; else echo download; fi; }

# download URL FILE TEST…: get FILE, which has its name only when it is complete and `TEST… FILE` succeeds on it. What a
# stopped download left is continued.
download() {
  local url=$1 file=$2 status=0
  shift 2
  [[ -e $file ]] && return
  command -v curl >/dev/null || die "curl is missing: install it, or give the data with --local DIR"
  mkdir -p "$(dirname "$file")"
  say "download $url"
  fetch "$url" "$file" || status=$?
  # The server refuses to continue: what is there is complete, or it is something else; then one attempt from the start.
  if [[ $status == 33 || $status == 36 ]] || { [[ $status == 22 ]] && grep -q 416 "$file.log"; }; then
    status=0
    "$@" "$file.part" >/dev/null 2>&1 || { rm -f "$file.part" && fetch "$url" "$file"; } || status=$?
  fi
  if [[ $status != 0 ]]; then
    die "download of $url failed ($(tail -n 1 "$file.log")); run again to continue, or use --local DIR"
  fi
  rm -f "$file.log"
  "$@" "$file.part" >/dev/null 2>&1 || {
    rm -f "$file.part"
    die "$url is not the whole file that it should be; run again"
  }
  mv "$file.part" "$file"
}

fetch() {
  "$PYTHON" "$PREP_DIR/watch.py" "download" "$2.part" "$2.log" \
    curl -fsSL --retry 3 --connect-timeout 20 --continue-at - --output "$2.part" "$1"
}

# make_dictionary TEXT WORDS MIN_COUNT PART
make_dictionary() {
  "$PYTHON" "$PREP_DIR/dictionary.py" "$1" "$4/dict.txt" --words "$2" --min-count "$3"
}

# binarize_lines FOLDER SUFFIX DICT WORKERS PART: fairseq-preprocess of FOLDER/{train,valid,test}.SUFFIX with a dictionary
# that is already there.
binarize_lines() {
  local folder=$1 suffix=$2 dict=$3 workers=$4 part=$5 split lines found
  mkdir -p "$part"
  "$PYTHON" "$PREP_DIR/watch.py" "binarise" "$part" "$part/console.log" \
    "$PYTHON" -m fairseq_cli.preprocess --only-source --srcdict "$dict" --trainpref "$folder/train.$suffix" \
    --validpref "$folder/valid.$suffix" --testpref "$folder/test.$suffix" --destdir "$part" --workers "$workers" ||
    die "fairseq-preprocess failed: $(tail -n 1 "$part/console.log")"
  for split in $SPLITS; do
    lines=$(wc -l <"$folder/$split.$suffix")
    found=$(sed -nE "s|.*/$split\.$suffix: ([0-9]+) sents, .*|\1|p" "$part/console.log")
    [[ $found == "$((lines))" ]] || die "fairseq-preprocess made ${found:-no} of $((lines)) lines of $folder/$split.$suffix"
    [[ $suffix == label ]] ||
      say "$split: $(sed -nE "s|.*/$split\.$suffix: ([0-9]+ sents.*)|\1|p" "$part/console.log")"
  done
  rm "$part/console.log" # preprocess.log holds the same
}

# binarize_labelled TEXTS RAW DICT WORKERS PART: for the task sentence_prediction; TEXTS has the .text, RAW the .label files.
# The labels' dictionary is given, not counted: class k is the label on its line k, and fairseq adds no made-up classes.
binarize_labelled() {
  binarize_lines "$1" text "$3" "$4" "$5/input0"
  binarize_lines "$2" label "$2/labels.txt" 1 "$5/label"
}

# unpack ARCHIVE FOLDER MEMBER…: unpack these members of a .tar.gz; FOLDER has its name only when it is complete.
unpack() {
  local archive=$1 folder=$2
  shift 2
  [[ -d $folder ]] && return
  say "unpack $(basename "$archive")"
  rm -rf "$folder.part"
  mkdir "$folder.part"
  "$PYTHON" "$PREP_DIR/watch.py" "unpack" "$folder.part" "$folder.log" tar -xzf "$archive" -C "$folder.part" "$@" ||
    die "$archive cannot be unpacked: $(tail -n 1 "$folder.log")"
  rm "$folder.log"
  mv "$folder.part" "$folder"
}

has_md5() { [[ $(md5sum <"$2" | cut -d ' ' -f 1) == "$1" ]]; }

gzip_is_whole() { gzip -t <"$1"; } # gzip itself wants the ending .gz
