#!/usr/bin/env bash
# Keras's moving average of the weights (use_ema) in an optimizer that accumulates gradients of several batches.
#
# Guess: an update moves the average once, however many batches it has. The documentation of
#        gradient_accumulation_steps says that the average's frequency goes by updates.
# So:    every batch moves it, though the weights change at the last one only. A momentum of .99 is .85 an update where
#        it has 16 batches: the average follows the last weights and averages little. With ema_overwrite_frequency=4 all
#        batches of the fourth update replace the weights, those before the update too.
# In:    keras 3.15.1, keras/src/optimizers/base_optimizer.py, _backend_apply_gradients, on torch; for JAX its copy in
#        keras/src/backend/jax/optimizer.py does the same
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 keras==3.15.1 numpy==2.4.6

KERAS_BACKEND=torch python - <<'PYTHON' 2>/dev/null | seen "the average after 100 updates of a weight that grows by 1
by the definition    37.60
1 batch an update    37.60
4 batches            75.35
16 batches           93.34
the weight before each of 4 updates, and at the end; the fourth replaces it by the average
1 batch an update    0.00  1.00  2.00  3.00  1.06
16 batches           0.00  1.00  2.00  1.19  1.20"
import keras


def train(updates, batches, **options):
    weight = keras.Variable([0.0])
    options = {"use_ema": True, "ema_momentum": 0.99, "gradient_accumulation_steps": batches, **options}
    optimizer = keras.optimizers.SGD(learning_rate=1.0, **options)
    optimizer.build([weight])
    weights = []
    for _ in range(updates):
        for _ in range(batches or 1):
            before = float(weight.numpy()[0])
            optimizer.apply([keras.ops.convert_to_tensor([-1.0])], [weight])
        weights.append(before)
    return [*weights, float(weight.numpy()[0])], float(optimizer._model_variables_moving_average[0].numpy()[0])


average = 1.0  # Keras begins with the weight after the first update.
for weight in range(2, 101):
    average = 0.99 * average + 0.01 * weight
cases = ("1 batch an update", None), ("4 batches", 4), ("16 batches", 16)
print("the average after 100 updates of a weight that grows by 1")
print(f"{'by the definition':20} {average:.2f}")
for name, batches in cases:
    print(f"{name:20} {train(100, batches)[1]:.2f}")
print("the weight before each of 4 updates, and at the end; the fourth replaces it by the average")
for name, batches in (cases[0], cases[2]):
    print(f"{name:20} " + "  ".join(f"{each:.2f}" for each in train(4, batches, ema_overwrite_frequency=4)[0]))
PYTHON
