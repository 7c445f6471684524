#!/usr/bin/env bash
# Prepares WMT14 English-German: get, check, tokenise, clean, joint BPE, binarise. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
