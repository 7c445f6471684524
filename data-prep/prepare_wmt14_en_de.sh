#!/usr/bin/env bash
# Prepares WMT14 English-German: get, check, tokenise, clean, joint BPE, binarise. Run again, it continues or does nothing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/lib/base.sh"
. "$PREP_DIR/lib/bitext.sh"
. "$PREP_DIR/lib/trees.sh"

usage() {
  cat <<'EOF'
usage: prepare_wmt14_en_de.sh OUT [options]
  --local DIR      folder with the archives named below, or with their files, plain or .gz ($WMT14_EN_DE_DIR; or download)
  --data NAME      wmt14, wmt16 or wmt17: News Commentary v9, v11 or v12, with Europarl v7 and Common Crawl (wmt14); google:
                   WMT16 as Google has prepared it, in 32,000 merges and 32,768 words, of which fairseq's recipe and Nguyen et
                   al. 2020 speak: --local's wmt16_en_de.tar.gz, or its files. No text is cleaned, OUT/raw has no training text
  --max N          no sentence with more tokens (80)
  --ratio X        no pair with a side X times as long as the other (9, that of Moses' clean-corpus-n.perl)
  --bpe N          joint BPE merges (32764)
  --separate-dictionaries  one for each language; else one for both
  --workers N      processes (number of CPU cores)
  --no-checksums   accept other archives than the official ones
  --min-correlation X  of the lengths of the two sides, in text that no checksum covers (0.3; -1: take it as it is)
  --trees LANG, --parser DIR, --tree-files DIR   phrases, as in prepare_multi30k.sh --help; without the last two trees are
                   taken from $WMT14_EN_DE_TREES, or from trees/ in --local's folder, where there are any
Archives: training-parallel-{europarl-v7,commoncrawl,nc-v9}.tgz (nc-v11, nc-v12), dev.tgz (of WMT17), test-full.tgz, 1.7 GB; it takes
about 8 GB of disk. Train about 4.5 million pairs, cased, Moses tokens with split dashes; valid newstest2013 (3,000 pairs), test
newstest2014 (3,003). OUT/bin is for fairseq in both directions. Python: $PYTHON, else that of scripts/setup.sh, else python3.
EOF
}

# The steps and their order are those of Lu et al. 2019 (zhuohan123/macaron-net, prepare-wmt14en2de.sh), as in Fan et al.
# 2021: cleaned before BPE, by 1 to 80 tokens and Moses' own ratio, News Commentary v12 (--data wmt17). fairseq's own
# script cleans after BPE, by 1 to 250 subwords and a ratio of 1.5, which leaves 4.0 of the papers' 4.5 million pairs.
wmt=http://www.statmt.org mirror=${WMT14_URL:-}
src=en tgt=de valid=newstest2013 local_dir=${WMT14_EN_DE_DIR:-} data=wmt14 max=80 ratio=9 bpe=32764 separate_dictionaries=0 dictionaries=()

add_news() {
  local later=http://data.statmt.org
  case $data in
    wmt14) add_pair "$wmt/wmt14/training-parallel-nc-v9.tgz" training/news-commentary-v9.de-en ;;
    wmt16) add_pair "$later/wmt16/translation-task/training-parallel-nc-v11.tgz" training-parallel-nc-v11/news-commentary-v11.de-en ;;
    wmt17) add_pair "$later/wmt17/translation-task/training-parallel-nc-v12.tgz" training/news-commentary-v12.de-en ;;
  esac
}

read_text() {
  local part=$1
  join_newstests "$part"
  begin_pairs
  add_pair "$wmt/wmt13/training-parallel-europarl-v7.tgz" training/europarl-v7.de-en
  add_pair "$wmt/wmt13/training-parallel-commoncrawl.tgz" commoncrawl.de-en
  add_news
  join_pairs "$part/train"
}

parse_arguments "max bpe workers" "local data ratio min-correlation trees parser tree-files" "no-checksums separate-dictionaries" "$@"
need_decimal --ratio "$ratio" 1
need_decimal --min-correlation "$min_correlation" -1
[[ $data == wmt14 || $data == wmt16 || $data == wmt17 || $data == google ]] || die "--data is wmt14, wmt16, wmt17 or google, got '$data'"
[[ $data != google || -n $local_dir$mirror || -d $out/bpe ]] ||
  die "--data google needs --local DIR with wmt16_en_de.tar.gz: its address at Google Drive is gone (see docs/data.md)"
[[ $data != google || $separate_dictionaries == 0 ]] || die "--data google has subwords of both languages together, and one dictionary"
if [[ -n $trees && -z $parser$tree_files ]]; then
  tree_files=${WMT14_EN_DE_TREES:-}
  if [[ -z $tree_files && -n $local_dir && -d $local_dir/trees ]]; then tree_files=$local_dir/trees; fi
fi
check_trees_options en de
need_folder "$local_dir" "the archives"
find_python

if [[ $separate_dictionaries == 1 ]]; then dictionaries=(separate); fi
options="wmt14_en_de data=$data max=$max ratio=$ratio bpe=$bpe separate=$separate_dictionaries checksums=$((1 - no_checksums)) local=$(source_of "$local_dir")"
open_out "$options"
if [[ $data == google ]]; then
  dictionaries=(--joined-dictionary --nwordssrc 32768 --nwordstgt 32768)
  step raw "read the text" take_google ""
  step bpe "read the subwords" take_google .tok.bpe.32000
  step tok "read the tokens" google_tokens "$out/bpe"
  remove_unpacked
elif [[ ! -d $out/tok || ! -d $out/raw ]]; then
  limits=(--max "$max" --ratio "$ratio")
  step text "read and check the text" read_text
  remove_unpacked
  long_step tokens "tokenise" tokenize_wmt "$out/text"
  step tok "clean the tokens (the papers: about 4.5 million pairs)" take_pairs "$out/tokens" "$out/tokens" "${limits[@]}"
  step raw "clean the text" take_pairs "$out/text" "$out/tokens" "${limits[@]}"
fi
rm -rf "$out/text" "$out/tokens"
long_step bpe "joint BPE, $bpe merges" joint_bpe "$out/tok" "$bpe"
step bin "binarise" binarize "$out/bpe" ${dictionaries[@]+"${dictionaries[@]}"}
add_phrases
say "ready: $out/bin"
