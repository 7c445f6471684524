#!/usr/bin/env bash
# YaRN, which stretches RoPE over longer texts, in LitGPT.
#
# Guess: as in the paper: fast channels keep their frequency, slow ones are divided by the factor.
# So:    the other way round. Fast channels, which tell neighbours apart, are 40 times slower. Slow ones meet angles
#        that the model has not seen in training, which is what YaRN is against.
# In:    litgpt 0.5.13, litgpt/model.py, build_rope_cache: ramp_func is 0 at the fast channels and weighs
#        theta_extrapolation
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 lightning==2.6.1 litgpt==0.5.13

python - <<'PYTHON' 2>/dev/null | seen "pair of channels           0       8      16      24      31
turns in 4096 words  651.90   65.19    6.52    0.65    0.09
frequency is divided by
paper                  1.00    1.00    1.82   40.00   40.00
LitGPT                40.00   40.00    2.11    1.00    1.00"
import numpy as np
import torch
from litgpt.model import build_rope_cache

CHANNELS, BASE, FACTOR, LENGTH, FAST, SLOW = 64, 10_000, 40.0, 4096, 32, 1  # as in DeepSeek-V3

# The paper: a channel's turns in the length that the model was trained with.
frequencies = BASE ** (-np.arange(0, CHANNELS, 2) / CHANNELS)
first, last = (CHANNELS * np.log(LENGTH / (turns * 2 * np.pi)) / (2 * np.log(BASE)) for turns in (FAST, SLOW))
divided = np.clip((np.arange(CHANNELS // 2) - np.floor(first)) / (np.ceil(last) - np.floor(first)), 0, 1)
paper = frequencies * (1 - divided) + frequencies / FACTOR * divided

options = dict(factor=FACTOR, beta_fast=FAST, beta_slow=SLOW)
cosines, sines = build_rope_cache(2, CHANNELS, base=BASE, extra_config={**options, "original_max_seq_len": LENGTH})
litgpt = torch.atan2(sines, cosines)[1, : CHANNELS // 2].numpy()

print("pair of channels           0       8      16      24      31")
print("turns in 4096 words" + "".join(f"{LENGTH * frequencies[i] / 2 / np.pi:8.2f}" for i in (0, 8, 16, 24, 31)))
print("frequency is divided by")
for name, values in (("paper", paper), ("LitGPT", litgpt)):
    print(f"{name:19}" + "".join(f"{frequencies[i] / values[i]:8.2f}" for i in (0, 8, 16, 24, 31)))
PYTHON
