#!/usr/bin/env bash
# A prompt ("context") for the decoder of Texar-PyTorch, with beam search.
#
# Guess: context holds the first words of the text, with a beam as in greedy decoding. GPT2Decoder takes it too.
# So:    beam search takes the first word of the context and ignores the others: prompts that begin alike are continued
#        alike. Greedy decoding and sampling read the whole prompt.
# In:    texar-pytorch 0.1.4, transformer_decoders.py, TransformerDecoder.forward (start_tokens = context[:, 0]) and
#        beam_decode
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==1.26.4 setuptools==81.0.0
install texar-pytorch==0.1.4

python - <<'PYTHON' 2>/dev/null | seen "prompt [3, 4, 5, 6]: greedy [3, 4, 5, 6, 11, 11, 13, 5], beam [2, 19]
log-probability by the beam  -4.03; by a pass after the first word  -4.03, after the prompt  -5.63
prompt [3, 9, 1, 2]: greedy [3, 9, 1, 2, 1, 11, 13, 5], beam [2, 19]
log-probability by the beam  -4.03; by a pass after the first word  -4.03, after the prompt  -6.45
prompt [8, 4, 5, 6]: greedy [8, 4, 5, 6, 11, 11, 13, 5], beam [19]
log-probability by the beam  -2.86; by a pass after the first word  -2.86, after the prompt  -3.34"
import torch
from texar.torch.modules import TransformerDecoder, default_transformer_poswise_net_hparams

WORDS, END, WIDTH = 20, 19, 16
torch.manual_seed(1)
words, positions = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(50, WIDTH)
decoder = TransformerDecoder(
    token_pos_embedder=lambda ids, places: words(ids) + positions(places),
    vocab_size=WORDS,
    hparams=dict(
        num_blocks=1,
        dim=WIDTH,
        embedding_tie=False,
        multihead_attention=dict(num_units=WIDTH, output_dim=WIDTH, num_heads=2),
        poswise_feedforward=default_transformer_poswise_net_hparams(WIDTH, WIDTH),
    ),
).eval()


def log_probability(prompt, continuation):
    """Return the log-probability of a continuation after a prompt, by one pass over both."""
    text = torch.tensor([[*prompt, *continuation]])
    logits = decoder(inputs=text[:, :-1], decoding_strategy="train_greedy").logits.log_softmax(-1)
    return logits[0].gather(1, text[0, 1:, None])[-len(continuation) :].sum()


with torch.no_grad():
    for prompt in ([3, 4, 5, 6], [3, 9, 1, 2], [8, 4, 5, 6]):
        options = dict(context=torch.tensor([prompt]), context_sequence_length=torch.tensor([4]), end_token=END)
        greedy, _ = decoder(**options, decoding_strategy="infer_greedy", max_decoding_length=7)
        beam = decoder(**options, beam_width=3, max_decoding_length=4)
        found = beam["sample_id"][0, :, 0].tolist()
        found = found[: found.index(END) + 1] if END in found else found
        print(f"prompt {prompt}: greedy {greedy.sample_id[0].tolist()}, beam {found}")
        print(
            f"log-probability by the beam {beam['log_prob'][0, 0]:6.2f};",
            f"by a pass after the first word {log_probability(prompt[:1], found):6.2f},",
            f"after the prompt {log_probability(prompt, found):6.2f}",
        )
PYTHON
