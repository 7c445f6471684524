#!/usr/bin/env bash
# Lightning's average of weights (EMAWeightAveraging) that starts at a later step: the weights before its start.
#
# Guess: until then all is as without an average: validation, checkpoints and the result have the trained weights.
# So:    they have the weights from before the first step. Validation scores an untrained model, and a checkpoint's
#        state_dict, which load_from_checkpoint reads, holds it. If training ends before the start, fit puts the
#        untrained weights into the model, without a warning.
#        The trained weights are only in the checkpoint's current_model_state. WeightAveraging is alike if its
#        should_update waits, as in the example of its docstring.
# In:    lightning 2.6.6, lightning/pytorch/callbacks/weight_averaging.py, on_validation_epoch_start, on_save_checkpoint
#        and on_train_end
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 lightning==2.6.6

python - <<'PYTHON' 2>/dev/null | seen "start at   steps   trained   validated   in the checkpoint   after fit
0          10      0.89      0.86        0.86
0          20      0.99      0.98        0.98
0          30      1.00      1.00        1.00                1.00
20         10      0.89      0.00        0.00
20         20      0.99      0.00        0.00
20         30      1.00      1.00        1.00                1.00
50         10      0.89      0.00        0.00
50         20      0.99      0.00        0.00
50         30      1.00      0.00        0.00                0.00"
import lightning
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint


class Model(lightning.LightningModule):
    """One weight, which begins at 0 and should become 1."""

    def __init__(self):
        super().__init__()
        self.weight, self.validated = torch.nn.Parameter(torch.zeros(())), []

    def training_step(self, batch, index):
        return (self.weight - 1) ** 2

    def validation_step(self, batch, index):
        self.validated.append(float(self.weight))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


print("start at   steps   trained   validated   in the checkpoint   after fit")
for start in (0, 20, 50):
    model = Model()
    keep = ModelCheckpoint(f"start-{start}", filename="{step}", save_top_k=-1)
    average = EMAWeightAveraging(decay=0.5, update_starting_at_step=start)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}
    trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", callbacks=[average, keep], **quiet)
    trainer.fit(model, torch.utils.data.DataLoader(torch.zeros(10)), torch.utils.data.DataLoader(torch.zeros(1)))
    for steps, validated in zip((10, 20, 30), model.validated):
        checkpoint = torch.load(f"start-{start}/step={steps}.ckpt", weights_only=True)
        values = checkpoint["current_model_state"]["weight"], validated, checkpoint["state_dict"]["weight"]
        line = "{:<10} {:<7} {:<9.2f} {:<11.2f} {:<19.2f}".format(start, steps, *map(float, values))
        print(f"{line} {float(model.weight):.2f}" if steps == 30 else line.rstrip())
PYTHON
