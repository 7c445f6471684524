#!/usr/bin/env bash
# The random blocks of BigBird in evaluation, in transformers.
#
# Guess: evaluation sees the blocks that training sees: a seed makes them equal in every batch. Or it sees none.
# So:    each random block becomes one more copy of block 0, which the softmax counts again. With three random blocks,
#        the default, block 0 counts four times. The model is evaluated with an attention that it was not trained
#        with, and no warning is given. Google's own code has the random blocks in both.
# In:    transformers 5.24.0, models/big_bird/modeling_big_bird.py, _bigbird_block_rand_mask and
#        _bigbird_block_rand_mask_with_head; models/bigbird_pegasus; for texts of more than (5 + 2 × random) blocks
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0

python - <<'PYTHON' 2>/dev/null | seen "                                  blocks that a query of block 8 sees
BigBird          training         0 1 4 6 7 8 9 23
BigBird          training, again  0 1 4 6 7 8 9 23
BigBird          evaluation       0 0 0 0 7 8 9 23
BigBirdPegasus   training         0 1 4 6 7 8 9 23
BigBirdPegasus   training, again  0 1 4 6 7 8 9 23
BigBirdPegasus   evaluation       0 0 0 0 7 8 9 23"
import torch
from transformers import BigBirdConfig, BigBirdModel, BigBirdPegasusConfig, BigBirdPegasusModel

BLOCK, BLOCKS, RANDOM, QUERY = 4, 24, 3, 8
words = torch.arange(BLOCKS * BLOCK)[None] + 3
sizes = dict(vocab_size=BLOCKS * BLOCK + 3, max_position_embeddings=BLOCKS * BLOCK, attention_type="block_sparse",
             block_size=BLOCK, num_random_blocks=RANDOM)
bird = BigBirdModel(BigBirdConfig(
    hidden_size=BLOCKS, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, **sizes))
pegasus = BigBirdPegasusModel(BigBirdPegasusConfig(
    d_model=BLOCKS, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1, decoder_attention_heads=1,
    encoder_ffn_dim=8, decoder_ffn_dim=8, **sizes)).get_encoder()
# All scores are zero, so that each key that is seen has one weight. The value of a key is 1 in its block's channel.
values = torch.eye(BLOCKS).repeat_interleave(BLOCK, 0)[None]

print("                                  blocks that a query of block 8 sees")
for name, model, attention in (
        ("BigBird", bird, bird.encoder.layer[0].attention.self),
        ("BigBirdPegasus", pegasus, pegasus.layers[0].self_attn.self)):
    outputs = []
    attention.query.register_forward_hook(lambda _, __, output: torch.zeros_like(output))
    attention.value.register_forward_hook(lambda *_: values)
    attention.register_forward_hook(lambda _, __, output: outputs.append(output[0].view(-1, BLOCKS)))
    for mode in ("training", "training, again", "evaluation"):
        model.train(mode != "evaluation")(words)
        times = (outputs[-1][QUERY * BLOCK] * (5 + RANDOM)).round().int().tolist()  # Of 5 + RANDOM blocks.
        blocks = [str(block) for block, count in enumerate(times) for _ in range(count)]
        print(f"{name:16} {mode:16}", *blocks)
PYTHON
