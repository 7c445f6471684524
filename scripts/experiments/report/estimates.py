"""Estimates of a training's hours, GPU memory and disk, from its parameters, updates and tokens.

    hours  = updates × update_freq × (STEP + 6·P·n / (SHARE · peak of the GPU))
    memory = CONTEXT + STATE·P + n × (ACTIVATIONS · (P - embeddings) / d + LOGITS · vocabulary)
    disk   = CHECKPOINT · P × (checkpoints that are kept + the last + the best)

P are the parameters and d the width, those that the recipe states for the full scale; n are the tokens of a step on one
GPU, padding among them. Not counted: validation, decoding, the exchange of gradients, the corpus on disk, and matrices
of attention where a variant needs them whole (T² of long articles). Speeds that others have published for such
trainings are met within a third on a V100 and within 40 % on a P40, as the tests hold; none was measured here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from experiments.recipes.recipe import Recipe

# TFLOP/s by NVIDIA's data sheets: fp32 where there are no tensor cores, else fp16 or bf16 without sparsity.
PEAK = {"P40": 12.0, "V100": 125.0, "A100": 312.0, "H100": 989.0, "H200": 989.0}
MEMORY = {"P40": 24, "V100": 32, "A100": 80, "H100": 80, "H200": 141}  # GB by the data sheets, the larger version
REFERENCE = "V100"  # for a machine without a GPU, or with one that is not above
# Seconds of forward and backward that do not depend on the batch, and the share of the peak that the rest attains. From
# NVIDIA's throughput of fairseq's big Transformer on one V100 (DeepLearningExamples, PyTorch/Translation/Transformer):
# 23,821 tokens/s in steps of 2,560 tokens, 32,153 in steps of 5,120, which make .056 s and half of the peak; and from
# the steps/s of Yang et al. 2019 (Table 2) on eight P40, which make a quarter (base) and a third (big).
STEP = 0.055
SHARE = 1 / 3
# Bytes a parameter: in fp16 or bf16 the weight and its gradient (2 each); in fp32 the weight, its gradient and Adam's
# two moments (4 each).
STATE = 20
# Bytes a token and a parameter of the layers, over d: a layer of 12·d² parameters keeps 34·d bytes for its backward
# pass, an attention to the source of 4·d² keeps 13·d (Korthikanti et al. 2022, section 4.1, without the matrix).
ACTIVATIONS = 3
# Bytes a token and a word of the vocabulary: logits and their gradient (2 each); in fp32 the softmax, its gradient, and
# that of the logits before it is rounded (4 each).
LOGITS = 16
CONTEXT = 1e9  # bytes of CUDA itself, chosen
CHECKPOINT = 12  # bytes a parameter: the weight and Adam's two moments in fp32
SENTENCE = 32  # tokens of a sentence, chosen: for batches that are counted in sentences, without max_positions


@dataclass(frozen=True)
class Estimate:
    """What a training takes: hours, and of one GPU its memory, and disk, both in GB (10⁹ bytes)."""

    hours: float
    memory: float
    disk: float

    def text(self, gpus: int, gpu: str) -> str:
        """Return the estimate for reading."""
        over = f" (a {gpu} has {MEMORY[gpu]}: lower --max-tokens)" if self.memory > MEMORY[gpu] else ""
        memory = f"{self.memory:.0f} GB of memory{over}"
        return f"{hours(self.hours)} on {gpus} {gpu}, {memory}, {self.disk:.1f} GB of disk"


def kind_of(name: str) -> str:
    """Return the key of ``PEAK`` for a GPU's name, as torch has it; ``REFERENCE`` for one that is not there."""
    return next((kind for kind in PEAK if re.search(rf"{kind}\b", name)), REFERENCE)


def estimate(recipe: Recipe, gpu: str) -> Estimate | None:
    """Return what the training of a recipe takes on GPUs of a kind; None where it trains no model of stated sizes.

    Args:
        recipe: with the batch of its launch (``Launch.adapt``).
        gpu: key of ``PEAK``.
    """
    stated = {"parameters", "embed_dim", "dictionary"} <= recipe.sizes.keys()
    if not stated or recipe.lead or recipe.probing == "scratch":
        return None
    parameters, width = recipe.sizes["parameters"], recipe.sizes["embed_dim"]
    tokens = _tokens_of_step(recipe)
    (frequency,) = recipe.flag("train", "update_freq", [1])
    step = STEP + 6 * parameters * tokens / (SHARE * PEAK[gpu] * 1e12)
    kept = recipe.flag("train", "keep_interval_updates", 0) + 2
    words, vocabulary = embeddings(recipe)
    bytes_of_token = ACTIVATIONS * (parameters - words * width) / width + LOGITS * vocabulary
    return Estimate(
        hours=recipe.flag("train", "max_update") * frequency * step / 3600,
        memory=(CONTEXT + STATE * parameters + tokens * bytes_of_token) / 1e9,
        disk=CHECKPOINT * parameters * kept / 1e9,
    )


def embeddings(recipe: Recipe) -> tuple[int, int]:
    """Return the rows of all matrices of words, and the words that are predicted (0: a classifier)."""
    stated = recipe.sizes["dictionary"]
    source, target = stated if isinstance(stated, list) else (stated, stated)
    task = recipe.flag("train", "task", "translation")
    if task == "sentence_prediction":
        return source, 0
    output = 0 if recipe.flag("train", "share_decoder_input_output_embed") else target
    if task == "language_modeling":
        return target + output, target
    return (target if recipe.flag("train", "share_all_embeddings") else source + target + output), target


def _tokens_of_step(recipe: Recipe) -> int:
    if tokens := recipe.flag("train", "max_tokens"):
        return int(tokens)
    return int(recipe.flag("train", "batch_size")) * int(recipe.flag("train", "max_positions", SENTENCE))


def hours(value: float) -> str:
    """Return hours for reading: '4 min', '1.5 h', '120 h'."""
    if value < 1:
        return f"{max(1, round(60 * value))} min"
    return f"{value:.1f} h" if value < 10 else f"{value:.0f} h"
