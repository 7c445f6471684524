#!/usr/bin/env bash
# Prepares WAT17 English-Japanese (ASPEC), or other parallel text of these languages: read, check, split into subwords,
# binarise. Run again, it continues or does nothing.
. "$(dirname "${BASH_SOURCE[0]}")/run_python.sh"
