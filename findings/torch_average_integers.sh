#!/usr/bin/env bash
# torch's AveragedModel with use_buffers=True, and a buffer of whole numbers that never changes: positions 0 to 511.
#
# Guess: an average of equal numbers is that number.
# So:    with get_ema_multi_avg_fn or get_ema_avg_fn it is computed in fp32, and cut to a whole number: 10.999999 gives
#        10. With decay 0.9999 every fifth position is wrong by one after the first average, and two words share one.
#        Tables of buckets and of distances are hit alike. Which numbers are hit depends on the decay: by 0.999, none.
#        With use_buffers=False, and without a function of one's own, buffers stay right.
# In:    torch 2.13.0 and 2.14.0, torch/optim/swa_utils.py, get_ema_multi_avg_fn and get_ema_avg_fn
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5

python - <<'PYTHON' 2>/dev/null | seen "buffer of positions after one average
average of all                 0 wrong, 9 to 12: [9, 10, 11, 12]; weights right
decay 0.9                    147 wrong, 9 to 12: [8, 10, 11, 11]; weights right
decay 0.99                     0 wrong, 9 to 12: [9, 10, 11, 12]; weights right
decay 0.999                    0 wrong, 9 to 12: [9, 10, 11, 12]; weights right
decay 0.9999                  99 wrong, 9 to 12: [9, 10, 10, 12]; weights right
decay 0.9999, each by itself  99 wrong, 9 to 12: [9, 10, 10, 12]; weights right
decay 0.9999, no buffers       0 wrong, 9 to 12: [9, 10, 11, 12]; weights right"
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn


class Embedding(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(512, 4)
        self.register_buffer("positions", torch.arange(512))


def row(name, **options):
    model = Embedding()
    average = AveragedModel(model, **options)
    average.update_parameters(model)  # The first update copies.
    average.update_parameters(model)
    positions = average.module.positions
    wrong = positions != model.positions
    weights = "right" if torch.allclose(average.module.table.weight, model.table.weight) else "wrong"
    print(f"{name:28} {int(wrong.sum()):3} wrong, 9 to 12: {positions[9:13].tolist()}; weights {weights}")


print("buffer of positions after one average")
row("average of all", use_buffers=True)
for decay in (0.9, 0.99, 0.999, 0.9999):
    row(f"decay {decay}", multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)
row("decay 0.9999, each by itself", avg_fn=get_ema_avg_fn(0.9999), use_buffers=True)
row("decay 0.9999, no buffers", multi_avg_fn=get_ema_multi_avg_fn(0.9999))
PYTHON
