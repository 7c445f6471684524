#!/usr/bin/env bash
# BERTScore of several pairs at once, by torchmetrics.
#
# Guess: each pair gets the score that it gets alone, in the order of the pairs.
# So:    from three pairs on, a translation may be compared with the reference of another line, or scores may come in
#        another order. Translations and references are each sorted by length for speed. Afterwards the permutation is
#        applied once more, where its inverse would undo it. For two lines the two are the same.
# In:    torchmetrics 1.9.0, torchmetrics/functional/text/bert.py, bert_score (sorting_indices), which BERTScore calls.
#        Here a word's vector is a one at its own place, instead of a model's output.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 torchmetrics==1.9.0 tqdm==4.70.1

python - <<'PYTHON' 2>/dev/null | seen "lengths            alone             together
1 2 3, 2 3 1       1.00 1.00 1.00    0.00 0.00 0.00
3 1 2, 3 1 2       1.00 0.00 0.50    0.50 1.00 0.00
1 2 3, 1 2 3       1.00 1.00 0.67    1.00 1.00 0.67
2 1, 1 2           1.00 1.00         1.00 1.00"
import torch
from torchmetrics.functional.text.bert import bert_score

ids = {}


def tokenizer(texts, **options):
    rows = [[1, *(ids.setdefault(word, len(ids) + 3) for word in text.split()), 2] for text in texts]
    padded = torch.tensor([row + [0] * (max(map(len, rows)) - len(row)) for row in rows])
    return {"input_ids": padded, "attention_mask": (padded > 0).long()}


def embed(model, batch):
    return torch.nn.functional.one_hot(batch["input_ids"], 20).float()


def score(translations, references):
    of = {"model": torch.nn.Identity(), "user_tokenizer": tokenizer, "user_forward_fn": embed}
    return torch.atleast_1d(bert_score(translations, references, **of)["f1"]).tolist()


print("lengths            alone             together")
for translations, references in (
    (["yes", "no no", "why why why"], ["yes yes", "no no no", "why"]),
    (["yes yes yes", "no", "why not"], ["yes yes yes", "never", "why so"]),
    (["yes", "no no", "why why not"], ["yes", "no no", "why why so"]),
    (["yes yes", "no"], ["yes", "no no"]),
):
    lengths = ", ".join(" ".join(str(len(text.split())) for text in texts) for texts in (translations, references))
    alone = [score([translation], [reference])[0] for translation, reference in zip(translations, references)]
    both = [" ".join(f"{each:.2f}" for each in scores) for scores in (alone, score(translations, references))]
    print(f"{lengths:18} {both[0]:17} {both[1]}")
PYTHON
