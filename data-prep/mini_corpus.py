#!/usr/bin/env python
"""Command of corpora/mini/corpus.py."""

import sys

from corpora.mini.corpus import main

if __name__ == "__main__":
    sys.exit(main())
