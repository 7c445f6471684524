#!/usr/bin/env bash
# Prepares Multi30k task 1, German-English: get, check, tokenise, joint BPE, binarise. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
