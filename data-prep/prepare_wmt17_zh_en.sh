#!/usr/bin/env bash
# Prepares WMT17 Chinese-English: get, check, part into words, clean, BPE, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/fetch.sh"
. "$PREP_DIR/lib/asian.sh"

usage() {
  cat <<'EOF'
usage: prepare_wmt17_zh_en.sh OUT [options]
  --local DIR           the archives, or what they unpack to ($WMT17_ZH_EN_DIR; without: download)
  --max-words N         training pairs with a longer side are left out (50; 0: none are)
  --bpe N               merges of the BPE of both languages (32000)
  --joined-dictionary   one dictionary for both languages; else there are two
  --segmented           the Chinese is in words already, separated by spaces
  --workers N           processes (number of CPU cores)
  --no-checksums        accept other files than the official ones
  --min-correlation C   of the lengths of the two sides, by blocks of lines, where not all is from official archives; -1: not
                        checked (0.3)
Training text: News Commentary v12, the UN Parallel Corpus v1.0, and of CWMT casia2015, casict2011, casict2015, datum2015,
datum2017 and neu2017: about 25 million pairs. valid = newsdev2017 (2,002), test = newstest2017 (2,001). OUT/bin is for fairseq
in both directions. It takes up to 40 GB of disk. Chinese words are found by jieba: pip install -e '.[zh]'. $WMT17_ZH_EN_URL: a
folder to download from instead. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

wmt=http://data.statmt.org/wmt17/translation-task
un=https://storage.googleapis.com/tfds-data/downloads/uncorpus/UNv1.0.en-zh.tar.gz
# The account is the public one that WMT17's page gives for these corpora.
cwmt=ftp://cwmt-wmt:cwmt-wmt@nlp.nju.edu.cn/parallel
corpora=(casia2015 casict2011 casict2015 datum2015 datum2017 neu2017)
# What Yang et al. (2019) count; how they cleaned they do not say. 50 words a side is a choice of ours.
published=20620000
out="" local_dir=${WMT17_ZH_EN_DIR:-} mirror=${WMT17_ZH_EN_URL:-} max_words=50 bpe=32000 joined_dictionary=0 segmented=0
no_checksums=0 min_correlation=0.3 workers=$(nproc 2>/dev/null || echo 1)

# add_pair URL CHINESE ENGLISH: a source of training text from an archive, or plain or .gz below --local.
add_pair() {
  obtain_members "$@"
  [[ $verified == 1 ]] || all_verified=0
  pairs+=(--pair "$(find_file "$folder" "$2")" "$(find_file "$folder" "$3")")
}

# add_cwmt NAME: the pieces of a CWMT corpus: *_ch.txt or *_cn.txt beside *_en.txt.
add_cwmt() {
  local name=$1 chinese english found=0
  if [[ -n $local_dir && -d $local_dir/$name ]]; then
    folder=$local_dir verified=0
  else
    obtain_members "$cwmt/$name.zip" "$name/*_c[hn].txt" "$name/*_en.txt"
  fi
  [[ $verified == 1 ]] || all_verified=0
  for chinese in "$folder/$name"/*_c[hn].txt "$folder/$name"/*_c[hn].txt.gz; do
    # Not the archive of what is beside it.
    [[ -e $chinese && ! ($chinese == *.gz && -e ${chinese%.gz}) ]] || continue
    english=${chinese/%_c[hn].txt/_en.txt}
    english=${english/%_c[hn].txt.gz/_en.txt.gz}
    [[ -e $english ]] || die "$chinese: there is no $(basename "$english") beside it"
    pairs+=(--pair "$chinese" "$english")
    found=1
  done
  [[ $found == 1 ]] || die "$folder/$name has no *_ch.txt or *_cn.txt: give the folder or $name.zip with --local DIR"
}

# test_set SPLIT ARCHIVE NAME SEGMENTS PART
test_set() {
  local split=$1 archive=$2 name=$3 segments=$4 part=$5 files=()
  files=("$archive/$name-zhen-src.zh.sgm" "$archive/$name-zhen-ref.en.sgm")
  obtain_members "$wmt/$archive.tgz" "${files[@]}"
  "$PYTHON" -m corpora.text.bitext join "$part/$split.zh" "$part/$split.en" --official "$segments" \
    --min-correlation "$min_correlation" \
    --pair "$(find_file "$folder" "${files[0]}")" "$(find_file "$folder" "${files[1]}")"
}

read_wmt17() {
  local part=$1 pairs=() all_verified=1 name commentary=training/news-commentary-v12.zh-en
  test_set valid dev newsdev2017 2002 "$part"
  test_set test test newstest2017 2001 "$part"
  add_pair "$wmt/training-parallel-nc-v12.tgz" "$commentary.zh" "$commentary.en"
  add_pair "$un" en-zh/UNv1.0.en-zh.zh en-zh/UNv1.0.en-zh.en
  for name in "${corpora[@]}"; do add_cwmt "$name"; done
  # Text of the official archives is what it is.
  if [[ $all_verified == 1 ]]; then min_correlation=-1; fi
  "$PYTHON" -m corpora.text.bitext join "$part/train.zh" "$part/train.en" "${pairs[@]}" --open-end \
    --min-correlation "$min_correlation"
  rm -rf "$out/download/unpacked"
}

parse_arguments "bpe workers" "local max-words min-correlation" "joined-dictionary segmented no-checksums" "$@"
[[ $max_words =~ ^(0|[1-9][0-9]*)$ ]] || die "--max-words needs a number from 0, got '$max_words'"
need_decimal --min-correlation "$min_correlation" -1
need_folder "$local_dir" "$out" "the archives"
find_python

options="wmt17-zh-en max-words=$max_words bpe=$bpe joined=$joined_dictionary segmented=$segmented checksums=$((1 - no_checksums))"
open_out "$out" "$options local=$(source_of "$local_dir")"
in_words "$out" zh en "$segmented" "$max_words" "$published" "$workers" read_wmt17
bpe_and_binarize "$out" zh en "$bpe" "$joined_dictionary" "$workers"
say "ready: $out/bin"
