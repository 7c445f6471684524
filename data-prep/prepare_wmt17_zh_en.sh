#!/usr/bin/env bash
# Prepares WMT17 Chinese-English: get, check, segment into words, clean, BPE, binarise. Run again, it continues or does nothing.
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
# The number of pairs of Yang et al. (2019), who do not describe how they cleaned the text; 50 words a side are our choice.
published=20620000
src=zh tgt=en local_dir=${WMT17_ZH_EN_DIR:-} mirror=${WMT17_ZH_EN_URL:-} max_words=50 bpe=32000 min_correlation=0.3

# add_cwmt NAME: add the pieces of a CWMT corpus, *_ch.txt or *_cn.txt with *_en.txt, to `pairs`.
add_cwmt() {
  local name=$1 chinese english found=0
  if [[ -n $local_dir && -d $local_dir/$name ]]; then
    folder=$local_dir verified=0
  else
    obtain_members "$cwmt/$name.zip" "$name/*_c[hn].txt" "$name/*_en.txt"
  fi
  [[ $verified == 1 ]] || all_verified=0
  for chinese in "$folder/$name"/*_c[hn].txt "$folder/$name"/*_c[hn].txt.gz; do
    # Skip the .gz of a file that is also there unpacked.
    [[ -e $chinese && ! ($chinese == *.gz && -e ${chinese%.gz}) ]] || continue
    english=${chinese/%_c[hn].txt/_en.txt}
    english=${english/%_c[hn].txt.gz/_en.txt.gz}
    [[ -e $english ]] || die "$chinese: there is no $(basename "$english") beside it"
    pairs+=(--pair "$chinese" "$english")
    found=1
  done
  [[ $found == 1 ]] || die "$folder/$name has no *_ch.txt or *_cn.txt: give the folder or $name.zip with --local DIR"
}

# test_set ARCHIVE NAME SEGMENTS FILE: write a test set to FILE.zh and FILE.en.
test_set() {
  local name=$1/$2-zhen
  begin_pairs
  add_files "$wmt/$1.tgz" "$name-src.zh.sgm" "$name-ref.en.sgm"
  "$PYTHON" -m corpora.text.bitext join "$4.zh" "$4.en" "${pairs[@]}" --official "$3" --min-correlation "$min_correlation"
}

read_wmt17() {
  local part=$1 pairs all_verified name commentary=training/news-commentary-v12.zh-en
  test_set dev newsdev2017 2002 "$part/valid"
  test_set test newstest2017 2001 "$part/test"
  begin_pairs
  add_pair "$wmt/training-parallel-nc-v12.tgz" "$commentary"
  add_pair "$un" en-zh/UNv1.0.en-zh
  for name in "${corpora[@]}"; do add_cwmt "$name"; done
  join_pairs "$part/train"
  remove_unpacked
}

parse_arguments "bpe workers" "local max-words min-correlation" "joined-dictionary segmented no-checksums" "$@"
need_count --max-words "$max_words"
need_decimal --min-correlation "$min_correlation" -1
need_folder "$local_dir" "the archives"
find_python

options="wmt17-zh-en max-words=$max_words bpe=$bpe joined=$joined_dictionary segmented=$segmented checksums=$((1 - no_checksums))"
open_out "$options local=$(source_of "$local_dir")"
in_words "$max_words" "$published" read_wmt17
bpe_and_binarize
say "ready: $out/bin"
