#!/usr/bin/env bash
# Running products and sums in a model that is exported to ONNX.
#
# Guess: torch.cumsum and torch.cumprod both export: ONNX has an operator for the first, and the second is a decomposition.
# So:    cumsum exports, cumprod is refused: torch decomposes it into prims.prod, of which its exporter knows no form.
# In:    torch 2.13.0 with onnx 1.23.2 and onnxscript 0.7.2, torch/onnx/_internal/exporter/_core.py
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 onnx==1.23.2 onnxscript==0.7.2

python - <<'PYTHON' 2>/dev/null | seen "cumsum   exported
cumprod  No ONNX function found for prims.prod"
import re

import torch


class Running(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x, dim=1)


for function in (torch.cumsum, torch.cumprod):
    try:
        torch.onnx.export(Running(function), (torch.rand(2, 5),), dynamo=True, verbose=False)
        said = "exported"
    except torch.onnx.errors.OnnxExporterError as error:
        found = re.search(r"No ONNX function found for.*?(prims\.\w+)", f"{error}{error.__cause__}", re.S)
        said = f"No ONNX function found for {found[1]}" if found else f"{error.__cause__}"[:300]
    print(f"{function.__name__:7}  {said}")
PYTHON
