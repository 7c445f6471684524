#!/usr/bin/env bash
# Whether transformers 5 trains positions that are sinusoids.
#
# Guess: no: the models' own code freezes them, and Marian's and Pegasus' are frozen.
# So:    FSMT (fairseq's models of WMT19), XLM and DistilBERT with sinusoids train them: each update moves them. XLM and
#        DistilBERT freeze a temporary tensor, and copy its values into a parameter that stays trainable. FSMT freezes in
#        make_weight, which is called where the table grows, and not when a model is made or loaded.
# In:    transformers 5.24.0, _init_weights of models/fsmt, models/xlm and models/distilbert
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0

python - <<'PYTHON' 2>/dev/null | seen "           requires_grad   moved by one update of Adam, lr .1
FSMT       True            0.10
XLM        True            0.10
DistilBERT True            0.10
Marian     False           0.00
Pegasus    False           0.00"
import torch
import transformers as hf

torch.manual_seed(0)
sizes = dict(d_model=8, max_position_embeddings=16)
for stack in ("encoder", "decoder"):
    sizes |= {f"{stack}_layers": 1, f"{stack}_attention_heads": 2, f"{stack}_ffn_dim": 8}
of_fsmt = dict(langs=["en", "de"], src_vocab_size=40, tgt_vocab_size=40)
of_marian = dict(vocab_size=40, decoder_start_token_id=3, pad_token_id=1, eos_token_id=2)
encoder = dict(vocab_size=40, n_layers=1, n_heads=2, max_position_embeddings=16)
models = {
    "FSMT": hf.FSMTForConditionalGeneration(hf.FSMTConfig(**of_fsmt, **sizes)),
    "XLM": hf.XLMModel(hf.XLMConfig(emb_dim=8, sinusoidal_embeddings=True, **encoder)),
    "DistilBERT": hf.DistilBertModel(hf.DistilBertConfig(dim=8, hidden_dim=8, sinusoidal_pos_embds=True, **encoder)),
    "Marian": hf.MarianMTModel(hf.MarianConfig(**of_marian, **sizes)),
    "Pegasus": hf.PegasusForConditionalGeneration(hf.PegasusConfig(vocab_size=40, **sizes)),
}
words = torch.tensor([[5, 6, 7, 2]])
print("           requires_grad   moved by one update of Adam, lr .1")
for name, model in models.items():
    positions = next(value for key, value in model.named_parameters() if "position" in key)
    before = positions.detach().clone()
    optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=0.1)
    output = model(words, labels=words)[0] if hasattr(model, "lm_head") or name == "FSMT" else model(words)[0]
    output.square().sum().backward()
    optimizer.step()
    moved = (positions.detach() - before).abs().max()
    print(f"{name:10} {positions.requires_grad!s:15} {moved:.2f}")
PYTHON
