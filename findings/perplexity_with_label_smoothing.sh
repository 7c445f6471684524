#!/usr/bin/env bash
# The perplexity of validation data, as toolkits report it where label smoothing is 0.1.
#
# Guess: exp of the mean negative log-likelihood of the reference's words. Smoothing belongs to training alone.
# So:    eole and Sockeye take the smoothed loss: 5.64 instead of 2. JoeyNMT takes the divergence from the smoothed
#        labels, which lacks their entropy: 1.44. All three prefer the worse of two models here. Early stopping follows
#        these numbers. They cannot be compared between toolkits, nor with fairseq's, which is that of the guess.
# In:    eole 0.6.4, eole/utils/loss.py, LossCompute.from_config, which does not read its argument train (OpenNMT-py 3,
#        too); sockeye 3.1.34, sockeye/loss.py, CrossEntropyLoss.create_metric; joeynmt 2.3.0, joeynmt/loss.py, XentLoss
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 pydantic==2.14.4 PyYAML==6.0.4 safetensors==0.8.0 pyonmttok==1.38.1 regex==2026.11.19
install --no-deps eole==0.6.4 sockeye==3.1.34 joeynmt==2.3.0

python - <<'PYTHON' 2>/dev/null | seen "right  rival  smoothing  definition  eole   Sockeye  JoeyNMT
0.5    0      0          2.00        2.00   2.00     2.00
0.5    0      0.1        2.00        5.64   5.64     1.44
0.6    0.399  0.1        1.67        8.91   8.91     2.28"
from argparse import Namespace
from math import exp

import torch
from eole.utils.loss import LossCompute
from joeynmt.loss import XentLoss
from sockeye.loss import CrossEntropyLoss

target = torch.tensor([[5, 7, 9]])  # Number 0 is padding, 2 the beginning of a sentence.


def model_of(right, rival):  # Probabilities of the reference's words, and of one other word. 31998 share the rest.
    probabilities = torch.full((1, 3, 32000), (1 - right - rival) / 31998)
    probabilities[..., 11] += rival
    return probabilities.scatter(2, target[..., None], right).log()


def by_eole(scores, smoothing):
    training = Namespace(label_smoothing=smoothing, lm_prior_model=None, lm_prior_lambda=0, lm_prior_tau=1)
    config = Namespace(training=training, model=Namespace(decoder=None, generator_function="softmax"))
    model = Namespace(tgt_shift=1, generator=torch.nn.Identity())
    loss = LossCompute.from_config(config, model, {"specials": {}, "tgt": {"<blank>": 0}}, train=False)
    batch = {"tgt": torch.cat([torch.tensor([[2]]), target], 1), "srclen": [3], "cid": [], "cid_line_number": []}
    return loss(batch, scores, None)[1].ppl()


def by_sockeye(scores, smoothing):
    loss = CrossEntropyLoss(label_smoothing=smoothing)
    metric = loss.create_metric()
    metric.update(*loss({"logits": scores}, {"target_label": target}))
    return metric.get()


print("right  rival  smoothing  definition  eole   Sockeye  JoeyNMT")
for right, rival, smoothing in ((0.5, 0, 0), (0.5, 0, 0.1), (0.6, 0.399, 0.1)):
    scores = model_of(right, rival)
    by_definition = exp(-scores.gather(2, target[..., None]).mean())
    by_joeynmt = exp(XentLoss(pad_index=0, smoothing=smoothing)(scores, trg=target) / 3)
    values = by_definition, by_eole(scores, smoothing), by_sockeye(scores, smoothing), by_joeynmt
    print(f"{right:<6} {rival:<6} {smoothing:<10} " + "{:<11.2f} {:<6.2f} {:<8.2f} {:.2f}".format(*values))
PYTHON
