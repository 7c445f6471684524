#!/usr/bin/env bash
# Causal models of reformer-pytorch and routing-transformer: what later words change in the outputs before them.
#
# Guess: with causal=True an output depends on the words up to it, so that a text can be scored in one pass.
# So:    the future is masked, but which earlier words an output reads depends on all words. LSH attention sorts the
#        whole text by hash and cuts it into chunks; routing takes the same number of words for each cluster. Local
#        heads and full attention of the same packages are causal.
# In:    reformer-pytorch 1.4.4, reformer_pytorch.py, LSHAttention.forward (sort_key_val, chunk_size);
#        routing-transformer 1.6.1, routing_transformer.py, KmeansAttention.forward, distribution (topk)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 local-attention==1.11.1 hyper-connections==0.4.11
install axial-positional-embedding==0.3.12 product-key-memory==0.3.0 colt5-attention==0.11.2 reformer-pytorch==1.4.4 mixture-of-experts==0.2.3 routing-transformer==1.6.1

python - <<'PYTHON' 2>/dev/null | seen "Reformer, LSH attention    of 32 outputs 27 change with the words after them
Reformer, full attention   of 32 outputs  0 change with the words after them
routing                    of 32 outputs 22 change with the words after them
routing, local heads alone of 32 outputs  0 change with the words after them"
import torch
from reformer_pytorch import ReformerLM
from routing_transformer import RoutingTransformerLM

LENGTH = 64
SIZES = dict(num_tokens=50, dim=32, depth=1, heads=2, max_seq_len=LENGTH, causal=True)


def logits(model, words):
    """Return the logits in evaluation, with the same random hashes each time."""
    torch.manual_seed(1)
    found = model(words)
    return found[0] if isinstance(found, tuple) else found


for name, kind, options in (
    ("Reformer, LSH attention", ReformerLM, dict(bucket_size=8, n_hashes=2)),
    ("Reformer, full attention", ReformerLM, dict(bucket_size=8, use_full_attn=True)),
    ("routing", RoutingTransformerLM, dict(window_size=16)),
    ("routing, local heads alone", RoutingTransformerLM, dict(window_size=16, n_local_attn_heads=2)),
):
    torch.manual_seed(1)
    model = kind(**SIZES, **options).double()
    words = torch.randint(50, (1, LENGTH))
    model(words)  # in training, which places the means of the clusters
    model.eval()
    other = words.clone()
    other[:, LENGTH // 2 :] = torch.randint(50, (1, LENGTH // 2))
    with torch.no_grad():
        before = logits(model, words)
        assert torch.equal(before, logits(model, words))
        difference = (before - logits(model, other))[0, : LENGTH // 2].abs().amax(-1)
    print(f"{name:26} of 32 outputs {(difference > 1e-9).sum():2} change with the words after them")
PYTHON
