#!/usr/bin/env bash
# The values in the attention of sinkhorn-transformer that is not causal.
#
# Guess: a query reads the values of its own bucket and of the buckets that are sorted to it.
# So:    from sorted buckets it reads keys in the place of values: where all values are zero, outputs are not zero.
#        Values reach the words of their own bucket alone. Causal attention and n_sortcut read values.
# In:    sinkhorn-transformer 0.11.4, sinkhorn_transformer.py, SinkhornAttention.forward (b_v_r = b_k_r.reshape)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 einops==0.8.2 local-attention==1.11.1 hyper-connections==0.4.11
install axial-positional-embedding==0.3.12 product-key-memory==0.3.0 colt5-attention==0.11.2
install sinkhorn-transformer==0.11.4

python - <<'PYTHON' 2>/dev/null | seen "mean size of outputs where all values are zero, not causal            : 0.06
mean size of outputs where all values are zero, not causal by Sinkhorn: 0.23
mean size of outputs where all values are zero, sortcut               : 0.00
mean size of outputs where all values are zero, causal                : 0.00
largest difference to loops that read sorted values 0.64, sorted keys 0.00
loops               : of 16 words in 4 buckets the first reads the values of 12, by its two heads
sinkhorn-transformer: of 16 words in 4 buckets the first reads the values of 4, by its two heads"
import torch
from sinkhorn_transformer.sinkhorn_transformer import SinkhornAttention, SinkhornCausalAttention

WORDS, BUCKET, WIDTH = 16, 4, 16
SIZES = dict(bucket_size=BUCKET, dim=32, dim_heads=WIDTH, heads=2, max_seq_len=WORDS, n_top_buckets=1)
torch.manual_seed(1)
q, k, v = torch.randn(3, 1, 2, WORDS, WIDTH, dtype=torch.float64)
layers = {
    "not causal": SinkhornAttention(**SIZES),
    "not causal by Sinkhorn": SinkhornAttention(**SIZES, non_permutative=False),
    "sortcut": SinkhornAttention(**SIZES, n_sortcut=1),
    "causal": SinkhornCausalAttention(**SIZES),
}
with torch.no_grad():
    layers["causal"].null_values.zero_()
    for name, layer in layers.items():
        size = layer.double().eval()(q, k, 0 * v).abs().mean()
        print(f"mean size of outputs where all values are zero, {name:22}: {size:.2f}")


def reference(sorted_values):
    """Return the attention of each query to its own bucket and to the one bucket that is sorted to it."""
    out = torch.zeros_like(q)
    for head in range(2):
        buckets = [slice(start, start + BUCKET) for start in range(0, WORDS, BUCKET)]
        for own in buckets:
            scores = [q[0, head, own].mean(0) @ k[0, head, other].mean(0) / WIDTH**0.5 for other in buckets]
            weight, best = torch.stack(scores).softmax(0).max(0)
            keys = torch.cat((weight * k[0, head, buckets[best]], k[0, head, own]))
            values = torch.cat((weight * sorted_values[0, head, buckets[best]], v[0, head, own]))
            out[0, head, own] = (q[0, head, own] @ keys.T / WIDTH**0.5).softmax(-1) @ values
    return out


found = layers["not causal"](q, k, v)
differences = [(found - reference(x)).abs().max() for x in (v, k)]
print("largest difference to loops that read sorted values {:.2f}, sorted keys {:.2f}".format(*differences))
v.requires_grad_()
for name, found in (("loops", reference(v)), ("sinkhorn-transformer", layers["not causal"](q, k, v))):
    (gradient,) = torch.autograd.grad(found[0, :, 0].sum(), v)
    words = (gradient[0].abs().amax((0, 2)) > 0).sum()
    print(f"{name:20}: of 16 words in 4 buckets the first reads the values of {words}, by its two heads")
PYTHON
