#!/usr/bin/env bash
# Prepares NIST Chinese-English: read, check, part into words, BPE, binarise. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
