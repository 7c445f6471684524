#!/usr/bin/env bash
# Prepares the subject-verb agreement of Linzen et al. (2016): get, check, divide, count the words, binarise. Run again, it continues
# or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/labelled.sh"

usage() {
  cat <<'EOF'
usage: prepare_sva.sh OUT [options]
  --local DIR     folder with agr_50_mostcommon_10K.tsv, plain or .gz ($SVA_DIR; without: download)
  --seed N        seed of the division into train (9 %), valid (1 %) and test (90 %), the paper's proportions (1)
  --min-count N   words that are rarer in the training text become <unk> (1; the table has 10,000 words and parts of speech for others)
  --no-checksums  accept the downloaded table as it is: nobody has published a checksum of it
  --workers N     processes (number of CPU cores)
The text ends before the verb; label 0: the verb is singular (VBZ), 1: plural (VBP).
OUT/bin is for fairseq's task sentence_prediction. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

# The address in the README of github.com/TalLinzen/rnn_agreement (an earlier one:
# http://tallinzen.net/media/rnn_agreement/agr_50_mostcommon_10K.tsv.gz).
url=https://www.dropbox.com/s/5axdu3q9jkxzjy8/agr_50_mostcommon_10K.tsv.gz?dl=1 mirror=${SVA_URL:-}
table=agr_50_mostcommon_10K.tsv
local_dir=${SVA_DIR:-} seed=1 min_count=1

read_raw() {
  local part=$1 folder=$local_dir file
  if [[ -z $folder ]]; then
    obtain "$url"
    folder=$(dirname "$file")
  fi
  "$PYTHON" -m corpora.sources.labelled sva "$(find_file "$folder" "$table")" "$part" --seed "$seed"
}

parse_arguments "seed min-count workers" "local" "no-checksums" "$@"
need_folder "$local_dir" "$table"
find_python

open_out "sva seed=$seed min-count=$min_count$(unchecked_note) local=$(source_of "$local_dir")"
step raw "read, check and divide the sentences" read_raw
finish_labelled "$out/raw" "$out/raw/train.text" "$min_count"
