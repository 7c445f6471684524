#!/usr/bin/env python
"""Command of corpora/trees/train_parser.py."""

import sys

from corpora.trees.train_parser import main

if __name__ == "__main__":
    sys.exit(main())
