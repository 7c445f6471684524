#!/usr/bin/env bash
# fairseq-train --keep-best-checkpoints 3.
#
# Guess: after four epochs the three best checkpoints are there.
# So:    one is written only where it is better than the worst that is kept, also while fewer than three are: if the
#        first epoch is the best, it stays the only one.
# In:    fairseq-fixed 0.12.3.1, fairseq/checkpoint_utils.py, save_checkpoint (worst_best)
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install_fairseq

printf 'a b c\nb c d\nc d a\nd a b\n' >text.x
printf 'e f g\nf g h\ng h e\nh e f\n' >text.y
fairseq-preprocess --source-lang x --target-lang y --trainpref text --validpref text --destdir bin >/dev/null 2>&1
small=()
for stack in encoder decoder; do
  small+=("--$stack-layers" 1 "--$stack-embed-dim" 8 "--$stack-ffn-embed-dim" 8 "--$stack-attention-heads" 1)
done
fairseq-train bin --task translation --arch transformer "${small[@]}" --optimizer adam --lr 1 --max-tokens 100 --required-batch-size-multiple 1 \
  --max-epoch 4 --no-epoch-checkpoints --keep-best-checkpoints 3 --cpu --num-workers 0 --save-dir model >log 2>&1

{
  printf 'epochs validated: %s\n' "$(grep -c "valid on 'valid' subset" log)"
  printf 'best checkpoints: %s\n' "$(find model -name 'checkpoint.best_loss_*.pt' | wc -l)"
  printf 'least loss in epoch: %s\n' "$(sed -n "s/.*valid on 'valid' subset | loss \([0-9.]*\) .*/\1/p" log | cat -n | sort -k 2n | head -n 1 | awk '{print $1}')"
} | seen "epochs validated: 4
best checkpoints: 1
least loss in epoch: 1"
