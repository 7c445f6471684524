#!/usr/bin/env bash
# Which channels of a head of 64 rotary position embeddings turn, and in which pairs.
#
# Guess: all 64, in the pairs of the paper (Su et al. 2021, equation 15): neighbours, (0, 1), (2, 3), …
# So:    x-transformers turns the first 32 alone unless rotary_emb_dim says otherwise. Llama in transformers, and
#        local-attention, pair channel 0 with channel 32. Weights of one so give another model in the other, without an
#        error, until the rows of the projections of queries and keys are reordered. LocalAttention turns as soon as it
#        is given dim: positions that a model has already are then there twice.
# In:    x-transformers 2.31.10, x_transformers.py, AttentionLayers.__init__; transformers 5.24.0, models/llama and
#        models/gptj; rotary-embedding-torch 0.9.1; local-attention 1.11.2, local_attention.py and rotary.py
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 x-transformers==2.31.10 local-attention==1.11.2 rotary-embedding-torch==0.9.1

python - <<'PYTHON' 2>/dev/null | seen "Llama                    64 channels, 0 with 32
GPT-J                    64 channels, 0 with 1
rotary-embedding-torch   64 channels, 0 with 1
x-transformers           32 channels, 0 with 1
local-attention          64 channels, 0 with 32"
import torch
import x_transformers.x_transformers as x_transformers
from local_attention import LocalAttention
from local_attention.rotary import apply_rotary_pos_emb
from rotary_embedding_torch import RotaryEmbedding
from transformers import LlamaConfig
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama

HEAD, LENGTH = 64, 4
positions = torch.arange(LENGTH)[None]


def report(name, turned):
    """turned: the queries (1, 1, LENGTH, HEAD) after their rotation, given those before."""
    last = torch.stack([turned(channel.expand(1, 1, LENGTH, HEAD))[0, 0, -1] for channel in torch.eye(HEAD)])
    of = [(row.abs() > 1e-6).nonzero().flatten().tolist() for row in last.detach()]
    print(f"{name:24} {sum(len(channels) > 1 for channels in of)} channels, 0 with {of[0][-1]}")


cos, sin = llama.LlamaRotaryEmbedding(LlamaConfig(hidden_size=HEAD, num_attention_heads=1))(torch.ones(1), positions)
report("Llama", lambda query: llama.apply_rotary_pos_emb(query, query, cos, sin)[0])

of_gptj = gptj.create_sinusoidal_positions(LENGTH, HEAD)[None].split(HEAD // 2, -1)
report("GPT-J", lambda query: gptj.apply_rotary_pos_emb(query.transpose(1, 2), *of_gptj).transpose(1, 2))

report("rotary-embedding-torch", RotaryEmbedding(dim=HEAD).rotate_queries_or_keys)

encoder = x_transformers.Encoder(dim=HEAD, depth=1, heads=1, attn_dim_head=HEAD, rotary_pos_emb=True)
angles, scale = encoder.rotary_pos_emb.forward_from_seq_len(LENGTH)
report("x-transformers", lambda query: x_transformers.apply_rotary_pos_emb(query, angles, scale))

local = LocalAttention(dim=HEAD, window_size=LENGTH)
angles, scale = local.rel_pos(torch.ones(1, LENGTH, HEAD))
report("local-attention", lambda query: apply_rotary_pos_emb(query, query, angles, scale=scale)[0])
PYTHON
