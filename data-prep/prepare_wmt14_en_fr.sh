#!/usr/bin/env bash
# Prepares WMT14 English-French as fairseq's recipe does: get, check, tokenise, joint BPE, clean, binarise.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
