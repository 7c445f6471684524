#!/usr/bin/env python
"""The command of corpora/mini/corpus.py."""

import sys

from corpora.mini.corpus import main

if __name__ == "__main__":
    sys.exit(main())
