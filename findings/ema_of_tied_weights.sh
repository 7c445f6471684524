#!/usr/bin/env bash
# A moving average of the weights, with decay 0.9, of a Transformer that shares its embeddings.
#
# Guess: one update moves each weight by a tenth of the way, shared or not.
# So:    fairseq's --store-ema and timm's ModelEmaV3 update a shared matrix once for each of its names: twice with
#        --share-decoder-input-output-embed, three times with --share-all-embeddings. There a decay of 0.9999 looks back
#        3333 updates in the embeddings, and 10000 in the other weights. There is no warning.
#        torch is right, and timm with exclude_buffers=True, and fairseq with --fp16 and --ema-fp32.
# In:    fairseq's main branch, fairseq/models/ema/ema.py, EMA._step_internal; timm 1.0.31, timm/utils/model_ema.py,
#        ModelEmaV3.apply_update_: both go through state_dict(), which has a shared matrix under all its names
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq
# timm's average needs torch alone, and is loaded as a file.
install --no-deps timm==1.0.31

python - <<'PYTHON' 2>/dev/null | seen "one update from 1 to 0           shared: nothing, decoder, all; other weights
torch, AveragedModel             0.900  0.900  0.900; 0.900
timm, ModelEmaV3                 0.900  0.810  0.729; 0.900
timm, ModelEmaV3, no buffers     0.900  0.900  0.900; 0.900
fairseq, --store-ema             0.900  0.810  0.729; 0.900
fairseq, --fp16 and --ema-fp32   0.900  0.900  0.900; 0.900"
import argparse
import importlib.util
import runpy

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema import build_ema
from fairseq.models.transformer import TransformerModel, tiny_architecture
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

folder = importlib.util.find_spec("timm").submodule_search_locations[0]
ModelEmaV3 = runpy.run_path(f"{folder}/utils/model_ema.py")["ModelEmaV3"]
task = argparse.Namespace(source_dictionary=(words := Dictionary()), target_dictionary=words)
settings = EMAConfig(store_ema=True, ema_decay=0.9), EMAConfig(store_ema=True, ema_decay=0.9, ema_fp32=True)


def embeddings_and_other(begin, sharing, half):
    options = argparse.Namespace(max_source_positions=8, max_target_positions=8, **sharing)
    tiny_architecture(options)
    model = TransformerModel.build_model(options, task).requires_grad_(False).to(torch.half if half else torch.float)
    [parameter.fill_(1) for parameter in model.parameters()]
    average = begin(model)
    update = next(getattr(average, each) for each in ("update_parameters", "update", "step") if hasattr(average, each))
    update(model)  # From this on torch averages. The others began above.
    [parameter.fill_(0) for parameter in model.parameters()]
    update(model)
    weights = (average.module if hasattr(average, "module") else average.get_model()).state_dict()
    return [f"{float(weights[f'decoder.{name}.weight'][-1, -1]):.3f}" for name in ("embed_tokens", "layers.0.fc1")]


print("one update from 1 to 0           shared: nothing, decoder, all; other weights")
for name, begin in {
    "torch, AveragedModel": lambda model: AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9)),
    "timm, ModelEmaV3": lambda model: ModelEmaV3(model, decay=0.9),
    "timm, ModelEmaV3, no buffers": lambda model: ModelEmaV3(model, decay=0.9, exclude_buffers=True),
    "fairseq, --store-ema": lambda model: build_ema(model, settings[0], None),
    "fairseq, --fp16 and --ema-fp32": lambda model: build_ema(model, settings[1], None),
}.items():
    sharings = (), ("share_decoder_input_output_embed",), ("share_all_embeddings",)
    rows = [embeddings_and_other(begin, dict.fromkeys(sharing, True), "--fp16" in name) for sharing in sharings]
    print(f"{name:32}", "  ".join(row[0] for row in rows) + "; " + rows[-1][1])
PYTHON
