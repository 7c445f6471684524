#!/usr/bin/env bash
# Beam search of keras-hub (BeamSampler), where one beam ends earlier than another.
#
# Guess: a beam that ends keeps its probability. Of the beams that ended the most probable one is returned.
# So:    a beam goes on after </s>, until all beams of the batch have ended. The words after </s> lower its probability.
#        Beams that differ after </s> alone take the places of others. A less probable, longer translation is
#        returned, and the probabilities of return_all_beams=True are not those of the translations.
#        A model's generate() hides the words after </s>, so one sees none of it. With one beam all is as guessed.
# In:    keras-hub 0.32.0, keras_hub/src/samplers/beam_sampler.py, BeamSampler.__call__ (cond, body); keras 3.15.1
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 keras==3.15.1 absl-py==2.5.1 regex==2026.11.19 rich==15.0.0 tokenizers==0.23.3
install --no-deps keras-hub==0.32.0

KERAS_BACKEND=torch python - <<'PYTHON' 2>/dev/null | seen "by definition  </s> 0.45, a </s> 0.28, b </s> 0.22
1 beam         </s> 0.45
2 beams        a </s> 0.28, </s> 0.14
3 beams        a </s> 0.28, b </s> 0.22, </s> 0.14
4 beams        a </s> 0.28, b </s> 0.22, </s> 0.14, </s> 0.13
all words      <s> a </s> | <s> b </s> | <s> </s> a | <s> </s> b"
from keras import ops
from keras_hub.samplers import BeamSampler

# The probabilities of the next word, by the last one. After </s> a model says anything: it was not trained there.
words = ["<pad>", "<s>", "</s>", "a", "b"]
following = {
    "<pad>": [1, 0, 0, 0, 0], "<s>": [0, 0, .45, .31, .24], "</s>": [0, .21, .20, .31, .28],
    "a": [0, 0, .90, .06, .04], "b": [0, 0, .90, .06, .04]}
logits = ops.log(ops.array([following[word] for word in words]) + 1e-9)


def next_word(prompt, cache, index):
    return ops.take(logits, prompt[:, index - 1], axis=0), None, cache


def probability(translation):
    product, last = 1, "<s>"
    for word in translation.split():
        product, last = product * following[last][words.index(word)], word
    return f"{translation} {product:.2f}"


print("by definition ", ", ".join(map(probability, ("</s>", "a </s>", "b </s>"))))
for beams in range(1, 5):
    prompt, mask = ops.array([[1, 0, 0, 0, 0, 0]]), ops.array([[True] + 5 * [False]])
    found, scores = BeamSampler(beams, return_all_beams=True)(
        next_word, prompt, index=1, mask=mask, stop_token_ids=[words.index("</s>")])
    found = [" ".join(words[i] for i in beam if i) for beam in found[0].tolist()]
    pairs = zip(found, ops.exp(scores)[0].tolist())
    cut = ", ".join(f"{beam[4:beam.index('</s>') + 4]} {score:.2f}" for beam, score in pairs)
    print(f"{beams} beam{'s' * (beams > 1):8}", cut)
print("all words     ", " | ".join(found))
PYTHON
