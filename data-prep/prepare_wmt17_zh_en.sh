#!/usr/bin/env bash
# Prepares WMT17 Chinese-English: get, check, segment into words, clean, BPE, binarise. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
