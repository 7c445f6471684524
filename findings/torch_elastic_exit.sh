#!/usr/bin/env bash
# torchrun: what its summary says of a worker that ends by sys.exit("the reason").
#
# Guess: with @record on its main function, the reason stands in the summary and in the worker's error file, as that of
#        any exception does.
# So:    SystemExit passes @record unrecorded: no error file is written, and the summary only tells how to get one.
# In:    torch 2.13.0, torch/distributed/elastic/multiprocessing/errors/__init__.py, record
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

cat > worker.py <<'PYTHON'
import sys

from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    if sys.argv[1] == "exit":
        sys.exit("no data in folder x")
    raise ValueError("no data in folder x")


main()
PYTHON
for ending in raise exit; do
  torchrun --nproc-per-node 1 worker.py $ending >log 2>&1 || true
  sed -n '/Root Cause/,$p' log | grep -q "no data in folder x" && echo "$ending: the summary has the reason" || echo "$ending: the summary has no reason"
done | seen "raise: the summary has the reason
exit: the summary has no reason"
