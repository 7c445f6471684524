#!/usr/bin/env python
"""Command of corpora/trees/parse.py."""

import sys

from corpora.trees.parse import main

if __name__ == "__main__":
    sys.exit(main())
