#!/usr/bin/env bash
# Prepares the toy corpus: generate, check, tokenise, joint BPE, binarise. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
