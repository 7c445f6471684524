#!/usr/bin/env bash
# Prepares IWSLT14 German-English as fairseq's recipe does: get, check, tokenise, clean, divide, joint BPE, binarise.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
