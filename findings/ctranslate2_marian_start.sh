#!/usr/bin/env bash
# A Marian model that was trained with transformers, and is converted for CTranslate2 (ct2-transformers-converter).
#
# Guess: both give a translation the same probability in fp32.
# So:    they do before training, and no longer after it. Translations can get worse. No warning is given.
#        In transformers the decoder starts from the embedding of <pad>, which is zero at first. The output layer
#        shares it, so training moves it. The converter drops it, and CTranslate2 starts from zeros.
#        A control: where transformers gets zeros for <pad> too, both are alike again.
# In:    ctranslate2 4.8.5, converters/transformers.py, MarianMTLoader: start_from_zero_embedding, _remove_pad_weights
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 ctranslate2==4.8.5 sentencepiece==0.2.3
python - <<'PYTHON' 2>/dev/null | seen "model                  <pad>     alike   a tenth less in CTranslate2
new                    zero      True    no word
trained                not zero  False   some words
trained, <pad> zeroed  zero      True    no word"
import json

import ctranslate2
import sentencepiece
import torch
from ctranslate2.converters import TransformersConverter
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

# A model learns to copy words. The converter wants a tokenizer; its pieces are not used.
words = ["</s>", "<unk>", *"abcdefghij", "<pad>"]
json.dump({word: i for i, word in enumerate(words)}, open("vocab.json", "w"))
sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b"]), model_prefix="pieces", vocab_size=6)
MarianTokenizer("pieces.model", "pieces.model", "vocab.json").save_pretrained("model")
torch.manual_seed(1)
model = MarianMTModel(MarianConfig(
    vocab_size=13, pad_token_id=12, decoder_start_token_id=12, eos_token_id=0, forced_eos_token_id=0, d_model=32,
    encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64,
    decoder_ffn_dim=64, max_position_embeddings=16, scale_embedding=True, dropout=0.0))
lines = torch.cat([torch.randint(2, 12, (12900, 4)), torch.zeros(12900, 1, dtype=torch.long)], 1)
test, text = lines[:100], [[words[i] for i in line] for line in lines[:100]]


@torch.no_grad()
def show(name):
    model.save_pretrained("model")
    TransformersConverter("model").convert("converted", force=True)
    ours = model(test, labels=test).logits[..., :12].softmax(2).gather(2, test[..., None])[..., 0]
    scores = ctranslate2.Translator("converted", compute_type="float32").score_batch(text, [x[:-1] for x in text])
    theirs = torch.tensor([each.log_probs for each in scores]).exp()
    pad, less = model.model.shared.weight[12].any(), (theirs < ours * .9).any()
    columns = f"{name:22} {'not zero' if pad else 'zero':9} {torch.allclose(ours, theirs, atol=1e-4)!s:7}"
    print(columns, "some words" if less else "no word")


print("model                  <pad>     alike   a tenth less in CTranslate2")
show("new")
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for batch in lines[100:].split(32):
    model(batch, labels=batch).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
show("trained")
torch.nn.init.zeros_(model.model.shared.weight[12])
show("trained, <pad> zeroed")
PYTHON
