"""The metrics: which a row may be compared by, how each is written, and which are better when they are lower."""

from __future__ import annotations

import re

from experiments.measure.rouge import METRICS as ROUGE
from experiments.measure.rouge import SWAPPED

BLEU = ("tokenised_bleu", "compound_bleu", "sacrebleu", "multi_bleu", "bleu_by_length", "bleu_by_ngram")
FAMILIES = ("bleu_by_length", "bleu_by_ngram", "locality", "probing")  # a row's `metric` that stands for several
OF_TRAINING = ("steps_per_second", "parameters")  # facts of the training, for any row
METRICS = (*BLEU, *ROUGE, SWAPPED, "locality", "probing", "accuracy", "perplexity", *OF_TRAINING)
FALLING = ("perplexity",)
NAMES = {
    "tokenised_bleu": "BLEU, tokenised",
    "compound_bleu": "BLEU, compounds split",
    "sacrebleu": "sacreBLEU",
    "multi_bleu": "BLEU, several references",
    "chrf": "chrF",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "rouge_avg": "ROUGE, mean of the three",
    "rougeL_swapped": "ROUGE-L, arguments swapped",
    "accuracy": "accuracy (%)",
    "perplexity": "perplexity (lower is better)",
    "steps_per_second": "steps/s",
    "bleu_by_length": "BLEU by length of the source",
    "bleu_by_ngram": "BLEU by order of n-grams",
    "tag_accuracy": "tags right (%)",
    "voice": "voice (%)",
    "tense": "tense (%)",
    "tss": "TSS (%)",
    "spc": "SPC (%)",
    "pos": "POS (%)",
    "probing_avg": "mean of the five (%)",
}


def metric_name(metric: str) -> str:
    """Return a metric as one reads it: 'MT03: BLEU, several references', 'attention within 2, layer 3 (%)'."""
    if near := re.fullmatch(r"w(\d+)_layer(\d+)", metric):
        return f"attention within {near[1]}, layer {near[2]} (%)"
    test, _, name = metric.rpartition("/")
    if order := re.fullmatch(r"bleu_ngram_(\d+)", name):
        name = f"BLEU, {order[1]}-grams alone"
    elif lengths := re.fullmatch(r"bleu_(\d+)_(\d+)", name):
        name = f"BLEU, {int(lengths[1]) + 1} to {lengths[2]} words"
    elif longer := re.fullmatch(r"bleu_(\d+)", name):
        name = f"BLEU, more than {longer[1]} words"
    said = NAMES.get(name, name)
    return f"{test}: {said}" if test else said
