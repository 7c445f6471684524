#!/usr/bin/env bash
# torch.serialization.safe_globals around a class that was allowed before by add_safe_globals.
#
# Guess: at its end the context manager leaves what is allowed as it was before.
# So:    it takes its classes away, whoever allowed them: a library that reads one file within it breaks the reading of
#        all later files of a program that had allowed the class for good.
# In:    torch 2.13.0, torch/_weights_only_unpickler.py, _safe_globals.__exit__
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

python - <<'PYTHON' 2>/dev/null | seen "before: loaded
within: loaded
after: refused"
import pickle
from argparse import Namespace

import torch

torch.save({"args": Namespace(lr=1)}, "file.pt")
torch.serialization.add_safe_globals([Namespace])


def load(when):
    try:
        torch.load("file.pt", weights_only=True)
        print(f"{when}: loaded")
    except pickle.UnpicklingError:
        print(f"{when}: refused")


load("before")
with torch.serialization.safe_globals([Namespace]):
    load("within")
load("after")
PYTHON
