#!/usr/bin/env bash
# How many words back the next word depends on a prompt: two layers whose window of 4 shows a word and the 3 before it.
#
# Guess: 6 words, 3 by each layer, as in transformers, from which the model is converted. So also for a long prompt.
# So:    CTranslate2 cuts a prompt into pieces as long as the window. A word of a later piece sees the piece before it
#        as well, so 5 to 8 words and not 4: by Mistral's window of 4096, up to 8192. The logits are others, without a
#        warning. The text is right where the prompt has at most one word more than the window.
#        Gemma 2 is converted without its window: every word sees all words before it.
# In:    ctranslate2 4.8.5, src/layers/transformer.cc, TransformerDecoder::decode (the mask of later pieces has no lower
#        end), and converters/transformers.py, Gemma2Loader.get_model_spec (no sliding_window); transformers 5.24.0
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 ctranslate2==4.8.5

python - <<'PYTHON' 2>/dev/null | seen "                                    words in the prompt
model                computed by     4   5   6   7   8   9  10  11  12
Mistral              transformers    3   4   5   6   6   6   6   6   6
Mistral              CTranslate2     3   4   5   6   7   8   9  10   7
Gemma 3              transformers    3   4   5   6   6   6   6   6   6
Gemma 3              CTranslate2     3   4   5   6   7   8   9  10   7
Gemma 2              transformers    3   4   5   6   6   6   6   6   6
Gemma 2              CTranslate2     3   4   5   6   7   8   9  10  11
Mistral, no window   transformers    3   4   5   6   7   8   9  10  11
Mistral, no window   CTranslate2     3   4   5   6   7   8   9  10  11"
import ctranslate2
import numpy
import torch
import transformers
from tokenizers import Tokenizer, models

words = ["<s>", "</s>", "<unk>"] + [f"w{i}" for i in range(37)]
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
special = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>")
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
sizes = dict(vocab_size=40, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2)
sizes |= dict(num_key_value_heads=1, head_dim=8, sliding_window=4, max_position_embeddings=64)
gemma = sizes | dict(query_pre_attn_scalar=8, layer_types=["sliding_attention"] * 2)
configs = {
    "Mistral": transformers.MistralConfig(**sizes),
    "Gemma 3": transformers.Gemma3TextConfig(**gemma),
    "Gemma 2": transformers.Gemma2Config(**gemma, attn_logit_softcapping=None, final_logit_softcapping=None),
    "Mistral, no window": transformers.MistralConfig(**sizes | dict(sliding_window=None)),
}


def next_logits(prompt, library):
    if library == "transformers":
        return model(torch.tensor([prompt])).logits[0, -1].detach().numpy()
    options = dict(max_length=1, include_prompt_in_result=False, return_logits_vocab=True)
    return numpy.array(generator.generate_batch([[words[i] for i in prompt]], **options)[0].logits[0][0])


def reach(length, library):
    """Return how many words back the first one is that changes the logits of the next word."""
    prompt = list(range(3, 3 + length))
    logits = next_logits(prompt, library)
    others = (next_logits(prompt[:i] + [39] + prompt[i + 1 :], library) for i in range(length))
    return length - 1 - [numpy.allclose(other, logits, atol=1e-5) for other in others].index(False)


print(f"{'':36}words in the prompt\n{'model':20} computed by  ", *(f"{length:3}" for length in range(4, 13)))
for name, config in configs.items():
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for parameter in (each for each in model.parameters() if each.dim() > 1):
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained("model")
    tokenizer.save_pretrained("model")
    ctranslate2.converters.TransformersConverter("model").convert("converted", force=True)
    generator = ctranslate2.Generator("converted", device="cpu", compute_type="float32")
    for library in ("transformers", "CTranslate2"):
        print(f"{name:20} {library:13}", *(f"{reach(length, library):3}" for length in range(4, 13)))
PYTHON
