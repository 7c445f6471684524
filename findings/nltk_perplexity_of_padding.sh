#!/usr/bin/env bash
# Perplexity of n-gram models by NLTK's own preparation of sentences.
#
# Guess: a sentence of w words is w words and one end to predict, for each order. The text below depends on one word
#        before, so orders above 2 only overfit it.
# So:    pad_both_ends writes order - 1 ends after a sentence. All but the first follow an end, cost nothing and count
#        in the mean: the higher the order, the lower the perplexity. Training counts them too: in the unigrams, which
#        the model falls back on, "</s>" comes order - 1 times a sentence, and so does "<s>", which is never predicted.
# In:    nltk 3.10.4, nltk/lm/preprocessing.py, pad_both_ends and padded_everygram_pipeline; nltk/lm/api.py, perplexity
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install nltk==3.10.4

python - <<'PYTHON' 2>/dev/null | seen "order   NLTK   one end   by definition   P(</s>): NLTK   by definition
    2   5.05      5.05            5.04           0.14            0.16
    3   3.98      5.06            5.06           0.22            0.16
    4   3.41      5.24            5.24           0.27            0.16
    5   3.18      5.81            5.81           0.31            0.16
    6   2.97      6.35            6.35           0.33            0.16"
import math
import random
from collections import Counter, defaultdict

from nltk.lm import WittenBellInterpolated
from nltk.lm.preprocessing import pad_both_ends, padded_everygram_pipeline
from nltk.util import ngrams

random.seed(1)
words = [f"w{i}" for i in range(30)]
followers = {word: random.sample(words, 4) for word in words}


def sentence():
    """A word, and with a probability of 0.8 another after each: one of the four that may follow it."""
    result = [random.choice(words[:5])]
    while random.random() < 0.8:
        result.append(random.choice(followers[result[-1]]))
    return result


train, test = [sentence() for _ in range(3000)], [sentence() for _ in range(200)]


def by_definition(order):
    """The perplexity, and the probability of an end in the unigrams, with one end a sentence."""

    def events(text):
        for each in text:
            symbols = ["<s>"] * (order - 1) + each + ["</s>"]
            for i in range(order - 1, len(symbols)):
                yield tuple(symbols[i - order + 1 : i]), symbols[i]

    counts = defaultdict(Counter)
    for context, word in events(train):
        for start in range(order):
            counts[context[start:]][word] += 1

    def probability(word, context):
        seen = counts.get(context, {})
        if not context:
            return seen[word] / sum(seen.values())
        lower = probability(word, context[1:])
        if not seen:
            return lower
        total = sum(seen.values())
        return (seen[word] + len(seen) * lower) / (total + len(seen))

    logs = [math.log(probability(word, context)) for context, word in events(test)]
    return math.exp(-sum(logs) / len(logs)), probability("</s>", ())


print("order   NLTK   one end   by definition   P(</s>): NLTK   by definition")
for order in range(2, 7):
    model = WittenBellInterpolated(order)
    model.fit(*padded_everygram_pipeline(order, train))
    text = [ngram for each in test for ngram in ngrams(pad_both_ends(each, n=order), order)]
    once = [ngram for ngram in text if ngram[-2] != "</s>"]
    perplexity, end = by_definition(order)
    row = model.perplexity(text), model.perplexity(once), perplexity, model.score("</s>"), end
    print(f"{order:5}" + "   {:.2f}   {:7.2f}   {:13.2f}   {:12.2f}   {:13.2f}".format(*row))
PYTHON
