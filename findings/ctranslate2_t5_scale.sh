#!/usr/bin/env bash
# T5 1.1, mT5 and UMT5 (also Flan-T5 and MADLAD-400) converted for CTranslate2 (ct2-transformers-converter).
#
# Guess: a translation has the same probability in fp32 as in transformers.
# So:    the logits are divided by the root of d_model, here by 4, in T5-large by 32: all words become about as likely.
#        Greedy translations stay. Scores, beam search and sampling are others. No warning is given.
#        Only T5 1.0 has this division. The converter tells by tie_word_embeddings, which transformers 5 sets to True in
#        all these models, whatever config.json says. What it says goes to scale_decoder_outputs now.
# In:    ctranslate2 4.8.5, converters/transformers.py, T5Loader.get_model_spec, which mT5 and UMT5 inherit;
#        transformers 5.24.0, models/t5/configuration_t5.py, T5Config.__post_init__ (also in mt5 and umt5)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 ctranslate2==4.8.5

python - <<'PYTHON' 2>/dev/null | seen "          log-probability of a translation           equal translations of 50
model     transformers  logits / 4  CTranslate2      greedy  beam of 4
T5 1.0    -15.35        -14.84      -15.35           50      50
T5 1.1    -20.53        -15.38      -15.38           50      29
mT5       -20.53        -15.38      -15.38           50      29
UMT5      -20.53        -15.38      -15.38           50      29"
import ctranslate2
import torch
import transformers
from tokenizers import Tokenizer, models

words = ["<pad>", "</s>", "<unk>"] + [f"w{i}" for i in range(37)]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
special = dict(pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
sizes = dict(vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0)
sources = torch.randint(3, 40, (50, 8), generator=torch.Generator().manual_seed(0))
sources[:, -1], target = 1, torch.tensor([0, 7, 8, 9, 1])
sentences = [[words[i] for i in source] for source in sources]

print("          log-probability of a translation           equal translations of 50")
print("model     transformers  logits / 4  CTranslate2      greedy  beam of 4")
for name, kind in (("T5 1.0", "T5"), ("T5 1.1", "T5"), ("mT5", "MT5"), ("UMT5", "UMT5")):
    T5 = getattr(transformers, f"{kind}ForConditionalGeneration")
    torch.manual_seed(0)
    options = {} if name == "T5 1.0" else dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    model = T5(T5.config_class(**sizes, **options)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    if name != "T5 1.0":  # Two matrices, as in the published models.
        model.lm_head.weight = torch.nn.Parameter(torch.randn(40, 16) / 2)
    model.save_pretrained("model")
    tokenizer.save_pretrained("model")
    ctranslate2.converters.TransformersConverter("model").convert("converted", force=True)
    translator = ctranslate2.Translator("converted", device="cpu", compute_type="float32")

    with torch.no_grad():
        logits = model(input_ids=sources[:1], decoder_input_ids=target[None, :-1]).logits[0]
    scores = [each.log_softmax(-1).gather(1, target[1:, None]).sum() for each in (logits, logits / 4)]
    scores.append(sum(translator.score_batch(sentences[:1], [[words[i] for i in target[1:-1]]])[0].log_probs))
    equal = []
    for beam in (1, 4):
        expected = model.generate(sources, max_new_tokens=8, num_beams=beam, length_penalty=0.0, do_sample=False)
        limits = dict(min_decoding_length=0, max_decoding_length=8, length_penalty=0)
        found = [each.hypotheses[0] for each in translator.translate_batch(sentences, beam_size=beam, **limits)]
        expected = [[words[i] for i in line if i > 1] for line in expected]
        equal.append(sum([word for word in a if word != "<pad>"] == b for a, b in zip(found, expected)))
    print(f"{name:9} {scores[0]:<13.2f} {scores[1]:<11.2f} {scores[2]:<16.2f} {equal[0]:<7} {equal[1]}")
PYTHON
