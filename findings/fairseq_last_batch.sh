#!/usr/bin/env bash
# The last batch of an epoch or a test set.
#
# Guess: every sentence is in a batch; required_batch_size_multiple only says where batches end.
# So:    what is left behind the last multiple of 8 is in no batch: of 13 sentences, 5 are neither trained on nor
#        translated, and nothing says so. Without the multiple (1) all are there.
# In:    fairseq-fixed 0.12.3.1, fairseq/data/data_utils_fast.pyx, batch_by_size_vec
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

python - <<'PYTHON' 2>/dev/null | seen "multiple 8: 8 of 13 sentences in batches
multiple 1: 13 of 13 sentences in batches"
import numpy
from fairseq.data.data_utils import batch_by_size

for multiple in (8, 1):
    batches = batch_by_size(
        numpy.arange(13), num_tokens_fn=lambda sentence: 10, max_tokens=1000, required_batch_size_multiple=multiple
    )
    print(f"multiple {multiple}: {sum(map(len, batches))} of 13 sentences in batches")
PYTHON
