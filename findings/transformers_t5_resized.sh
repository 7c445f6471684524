#!/usr/bin/env bash
# T5 1.1 and mT5 of transformers, after resize_token_embeddings, as one calls it to add the token of a language.
#
# Guess: the old words keep their logits. These models have an output layer of their own, which gets a row as well.
# So:    the output layer is replaced by the embeddings, even where the size stays. Nothing is said at this call.
#        The old logits are lost, and fine-tuning starts from a broken model. UMT5 and Flan-T5 have the same code.
#        Version 5 sets tie_word_embeddings to True in these models, whatever config.json says. Loading sees that the
#        two matrices differ, warns and keeps both. Resizing ties them, and so does tie_weights().
#        With model.config.tie_word_embeddings = False after loading, both get a row, and the logits stay.
# In:    transformers 5.24.0, models/t5/configuration_t5.py, T5Config.__post_init__ (also in mt5 and umt5);
#        modeling_utils.py, PreTrainedModel.resize_token_embeddings and tie_weights
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0

python - <<'PYTHON' 2>/dev/null | seen "model    after                      logits of old words   output layer
T5 1.0   loading                    same                  the embeddings
T5 1.0   resizing from 40 to 41     same                  the embeddings
T5 1.1   loading                    same                  its own
T5 1.1   resizing from 40 to 41     other                 the embeddings
T5 1.1   resizing from 40 to 40     other                 the embeddings
T5 1.1   False, resizing to 41      same                  its own
mT5      loading                    same                  its own
mT5      resizing from 40 to 41     other                 the embeddings
mT5      resizing from 40 to 40     other                 the embeddings
mT5      False, resizing to 41      same                  its own"
import json
from pathlib import Path

import torch
from transformers import MT5ForConditionalGeneration as MT5
from transformers import T5ForConditionalGeneration as T5

sizes = dict(vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0)
sentence = torch.tensor([[5, 6, 7, 1]])
cases = {"loading": None, "resizing from 40 to 41": 41, "resizing from 40 to 40": 40, "False, resizing to 41": 41}


def logits(model):
    with torch.no_grad():
        return model.eval()(input_ids=sentence, decoder_input_ids=sentence).logits[..., :40]


print(f"{'model':8} {'after':26} {'logits of old words':21} output layer")
for name, kind, tied in (("T5 1.0", T5, True), ("T5 1.1", T5, False), ("mT5", MT5, False)):
    model = kind(kind.config_class(**sizes, tie_word_embeddings=tied))
    if not tied:  # Two matrices, as in the published models.
        model.lm_head.weight = torch.nn.Parameter(torch.randn(40, 16))
    model.save_pretrained("model")
    config = json.loads(Path("model/config.json").read_text()) | dict(tie_word_embeddings=tied)  # As published.
    Path("model/config.json").write_text(json.dumps(config))
    for case, size in list(cases.items())[: 2 if tied else 4]:
        loaded = kind.from_pretrained("model")
        if case.startswith("False"):
            loaded.config.tie_word_embeddings = False
        if size:
            loaded.resize_token_embeddings(size)
        same = "same" if torch.allclose(logits(loaded), logits(model), atol=1e-4) else "other"
        layer = "the embeddings" if loaded.lm_head.weight is loaded.shared.weight else "its own"
        print(f"{name:8} {case:26} {same:21} {layer}")
PYTHON
