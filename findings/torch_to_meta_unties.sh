#!/usr/bin/env bash
# Parameters that two modules share, after .to("meta").
#
# Guess: Module.to keeps what is shared, on the device meta as on any other.
# So:    on meta each module gets a parameter of its own: a model counted there has more tensors than the real one.
#        Building it under torch.device("meta") keeps what is shared.
# In:    torch 2.13.0, torch/nn/modules/module.py, Module._apply
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

python - <<'PYTHON' 2>/dev/null | seen "to float64: 1 parameter
to meta: 2 parameters
built on meta: 1 parameter"
import torch


def tied():
    first, second = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    return torch.nn.ModuleList([first, second])


def count(how, model):
    number = len(list(model.parameters()))
    print(f"{how}: {number} parameter{'s' * (number > 1)}")


count("to float64", tied().to(torch.float64))
count("to meta", tied().to("meta"))
with torch.device("meta"):
    count("built on meta", tied())
PYTHON
