# Shell functions that get a corpus's files and check them; source it after lib/base.sh.
#
# checksums.txt names the official files, with their sizes and checksums. An environment variable of each preparation names
# a mirror (file:// in tests) with files of these names, or one archive; they are checked in the same way; the variable `mirror`
# has it. A download whose checksum nobody has published is refused, unless --no-checksums accepts it.
#
# Official files are kept in $LOCALATTN_DOWNLOADS/HOST/PATH (by default data/downloads in the repository), where all
# preparations find them. Empty, it keeps them in OUT/download, as are files that nobody can vouch for.

downloads=${LOCALATTN_DOWNLOADS-$REPO/data/downloads}

# download_folder URL [OTHER]: print the folder for the official file of URL; OUT/download where it comes from an OTHER place.
download_folder() {
  local place=${1#*://}
  if [[ -n $downloads && -z ${2:-} ]]; then dirname "${downloads%/}/${place#*@}"; else echo "$out/download"; fi
}

# download URL FILE TEST…: get FILE, which has its name only when it is complete and `TEST… FILE` succeeds on it. A stopped
# download is continued; of several preparations that want a file of the same folder, one at a time downloads.
download() {
  local folder
  folder=$(dirname "$2")
  [[ ! -e $2 ]] || return 0
  mkdir -p "$folder" || die "cannot create $folder: see LOCALATTN_DOWNLOADS in docs/data.md"
  if [[ $folder != "$out/download" ]] && command -v flock >/dev/null; then # OUT has its own lock
    exec 8>>"$folder/.lock"
    flock -n 8 || { say "waiting for another download to $folder" && flock 8; }
  fi
  get_file "$@"
  exec 8>&-
}

# get_file URL FILE TEST…: see download; another preparation may have been faster.
get_file() {
  local url=$1 file=$2 status=0 reason
  shift 2
  [[ ! -e $file ]] || return 0
  command -v curl >/dev/null || die "curl is missing: install it, or give the data with --local DIR"
  say "download $url"
  fetch "$url" "$file" || status=$?
  # The server refuses to continue: the part is complete, or another file; then one attempt from the start.
  if [[ $status == 33 || $status == 36 ]] || { [[ $status == 22 ]] && grep -q 416 "$file.log"; }; then
    status=0
    "$@" "$file.part" >/dev/null 2>&1 || { rm -f "$file.part" && fetch "$url" "$file"; } || status=$?
  fi
  if [[ $status != 0 ]]; then
    die "download of $url failed ($(tail -n 1 "$file.log")); run again to continue, or use --local DIR"
  fi
  rm -f "$file.log"
  reason=$("$@" "$file.part" 2>&1 >/dev/null) || {
    rm -f "$file.part"
    reason=${reason##*$'\n'}
    die "$url is not the whole file that it should be${reason:+ ($reason)}; run again"
  }
  mv "$file.part" "$file"
}

fetch() {
  "$PYTHON" -m corpora.text.watch "download" "$2.part" "$2.log" \
    curl -fsSL --retry 3 --connect-timeout 20 --continue-at - --output "$2.part" "$1"
}

# named URL: print size and checksum of a file in checksums.txt.
named() { awk -v url="$1" '$1 == url { print $2, $3; found = 1 } END { exit !found }' "$PREP_DIR/checksums.txt"; }

# is_official URL CHECKED(0|1) FILE: test whether FILE has the size and the checksum of URL in checksums.txt (with CHECKED
# 1), and is whole, as far as its format shows. The reason is printed to stderr.
is_official() {
  local url=$1 checked=$2 file=$3 bytes="" sum="" found
  read -r bytes sum < <(named "$url")
  if [[ $checked == 1 ]]; then
    found=$(($(wc -c <"$file")))
    [[ $bytes == - || $found == "$bytes" ]] || { echo "expected $bytes bytes, found $found" >&2 && return 1; }
    found=$(sum_of "$sum" "$file")
    [[ $found == "$sum" ]] || { echo "expected checksum $sum, found $found" >&2 && return 1; }
  fi
  case ${url%%\?*} in
    *.gz | *.tgz) gzip -t <"$file" ;; # gzip itself wants the ending .gz
    *.zip) "$PYTHON" -m corpora.text.unpack --test "$file" ;;
    *.tar) tar -tf "$file" ;;
    *) [[ -s $file ]] || { echo "it is empty" >&2 && return 1; } ;;
  esac
}

# sum_of SUM FILE: print the checksum of FILE, of the kind of SUM.
sum_of() {
  case $1 in
    - | text) echo "$1" ;;
    md5:*) echo "md5:$(md5sum <"$2" | cut -d ' ' -f 1)" ;;
    *) sha256sum <"$2" | cut -d ' ' -f 1 ;;
  esac
}

# obtain URL: set `file` to the official file: that in --local, or the downloaded one; and `verified` to 1 if it was compared
# with a checksum, to 0 otherwise. Unchecked files, and a mirror's whose text alone is checked, are for this preparation alone.
obtain() {
  local url=$1 name checked=$((1 - no_checksums)) reason sum other="" from=$1 corpus=${0##*/prepare_}
  corpus=${corpus%.sh}
  name=$(basename "${url%%\?*}")
  named "$url" >/dev/null || die "checksums.txt does not name $url"
  read -r _ sum < <(named "$url")
  verified=$checked
  if [[ $sum == - || $sum == text ]]; then verified=0; fi
  if [[ -z $local_dir ]]; then
    if [[ $checked == 0 || $sum == - ]]; then other=unchecked; elif [[ $sum == text ]]; then other=$mirror; fi
    file=$(download_folder "$url" "$other")/$name
    # It may have been downloaded when checks were off.
    if [[ $checked == 1 && -e $file ]]; then is_official "$url" 1 "$file" >/dev/null 2>&1 || rm -f "$file"; fi
    case ${mirror%%\?*} in
      "") ;;
      # A corpus's own address; what else it needs, such as a vocabulary, is no archive.
      *.gz | *.tgz | *.zip) [[ $name != *.@(gz|tgz|zip) ]] || from=$mirror ;;
      *) from=${mirror%/}/$name ;;
    esac
    download "$from" "$file" is_official "$url" "$checked"
    [[ $checked == 0 || $sum != - ]] ||
      die "$file: nobody has published a checksum of it; it has $(($(wc -c <"$file"))) bytes and the sha256" \
        "$(sum_of sha256 "$file"): accept it by --no-checksums or --local $(dirname "$file") (in a table: --local" \
        "$corpus=$(dirname "$file"), or \$${corpus^^}_DIR), or pin it in data-prep/checksums.txt"
    return
  fi
  file=$local_dir/$name
  [[ -e $file ]] || die "$local_dir has no $name: get it from $url"
  say "check $name"
  reason=$(is_official "$url" "$checked" "$file" 2>&1 >/dev/null) ||
    die "$file is not the official file (${reason##*$'\n'}); get it again, or give --no-checksums to take it as it is"
}

# obtain_members URL MEMBER…: set `folder` to a folder with these members of the archive URL: --local, if they are in there,
# plain or .gz; otherwise they are unpacked from the archive into OUT/download/unpacked. A member of the archive may be a
# pattern. `verified` is set as by obtain; files of --local are not verified.
obtain_members() {
  local url=$1 member found=1
  shift
  verified=0
  for member in "$@"; do [[ -n $local_dir && -e $(find_file "$local_dir" "${member%.gz}") ]] || found=0; done
  if [[ $found == 1 ]]; then
    folder=$local_dir
    return
  fi
  obtain "$url"
  folder=$out/download/unpacked/$(basename "$url")
  unpack "$file" "$folder" "$@"
}

# begin_pairs: start a list of parallel files, for bitext.py join, in `pairs`; all_verified: all are from checked archives.
# add_files URL FIRST SECOND: add two members of an archive. add_pair URL PREFIX [ENDING]: add PREFIX.{SRC,TGT}ENDING.
begin_pairs() { pairs=() all_verified=1; }

add_files() {
  obtain_members "$@"
  [[ $verified == 1 ]] || all_verified=0
  pairs+=(--pair "$(find_file "$folder" "${2%.gz}")" "$(find_file "$folder" "${3%.gz}")")
}

add_pair() { add_files "$1" "$2.$src${3:-}" "$2.$tgt${3:-}"; }

# join_pairs PREFIX [OPTION…]: write the files in `pairs` to PREFIX.SRC and PREFIX.TGT. Text of official archives is taken as
# it is. Of other text the lengths are checked by --min-correlation, and a last line without a newline means that the file
# was cut off, unless that is -1.
join_pairs() {
  local prefix=$1 check=(--min-correlation "$min_correlation")
  shift
  if [[ $all_verified == 1 || $min_correlation == -1 ]]; then check=(--min-correlation -1 --open-end); fi
  "$PYTHON" -m corpora.text.bitext join "$prefix.$src" "$prefix.$tgt" "${pairs[@]}" "${check[@]}" "$@"
}

# remove_unpacked: remove what obtain_members has unpacked; downloaded archives stay.
remove_unpacked() {
  rm -rf "$out/download/unpacked"
  rmdir "$out/download" 2>/dev/null || true
}

# unpack ARCHIVE FOLDER MEMBER…: unpack these members of an archive; FOLDER is there only when it is complete. Another archive
# is unpacked anew.
unpack() {
  local archive=$1 folder=$2
  shift 2
  [[ -d $folder && ! $archive -nt $folder ]] && return
  say "unpack $(basename "$archive")"
  mkdir -p "$(dirname "$folder")"
  "$PYTHON" -m corpora.text.watch "unpack" "$folder.part" "$folder.log" \
    "$PYTHON" -m corpora.text.unpack "$archive" "$folder" "$@" ||
    die "$archive cannot be unpacked: $(tail -n 1 "$folder.log")"
  rm "$folder.log"
}
