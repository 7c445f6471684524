#!/usr/bin/env bash
# FSMT of transformers, fairseq's models of WMT19: the score of a translation that is given, word by word.
#
# Guess: the logits at a position depend on the words up to it alone, as in Marian.
# So:    with decoder_input_ids and the default use_cache=True there is no causal mask. Each word sees all words after
#        it, the one that it predicts too, without a warning. With labels or use_cache=False the model is causal.
#        transformers 4 returned the logits of the last word alone in this case, which one notices.
#        Log-probabilities for reranking, distillation or perplexity need one of the two.
# In:    transformers 5.24.0, models/fsmt/modeling_fsmt.py, FSMTModel.forward
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0

python - <<'PYTHON' 2>/dev/null | seen "                         changes with later words    probability as by labels
FSMT                     True                        False
FSMT, use_cache=False    False                       True
FSMT, labels             False                       True
Marian                   False                       True"
import torch
from transformers import FSMTConfig, FSMTForConditionalGeneration, MarianConfig, MarianMTModel

sizes = dict(
    d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
    encoder_ffn_dim=16, decoder_ffn_dim=16)
fsmt = FSMTConfig(langs=["de", "en"], src_vocab_size=30, tgt_vocab_size=30, **sizes)
marian = MarianConfig(vocab_size=30, pad_token_id=1, decoder_start_token_id=2, **sizes)
source, target = torch.tensor([[5, 6, 7, 2]]), torch.tensor([[8, 9, 10, 11, 2]])
other = torch.tensor([[8, 9, 10, 29, 2]])


def before(words):
    return torch.cat([torch.tensor([[2]]), words[:, :-1]], 1)


def log_probability(logits):
    return logits.log_softmax(2).gather(2, target[..., None]).sum().item()


print("                         changes with later words    probability as by labels")
for name, kind, config, options in (
        ("FSMT", FSMTForConditionalGeneration, fsmt, {}),
        ("FSMT, use_cache=False", FSMTForConditionalGeneration, fsmt, {"use_cache": False}),
        ("FSMT, labels", FSMTForConditionalGeneration, fsmt, {"labels": target}),
        ("Marian", MarianMTModel, marian, {})):
    torch.manual_seed(1)
    model = kind(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=.3)
    with torch.no_grad():
        logits, changed = (
            model(source, decoder_input_ids=before(words), **options).logits for words in (target, other))
        reference = model(source, labels=target, decoder_input_ids=before(target)).loss.item() * -target.numel()
    print(f"{name:25}{not torch.allclose(logits[:, 0], changed[:, 0], atol=1e-4)!s:28}"
          f"{abs(log_probability(logits) - reference) < 1e-3}")
PYTHON
