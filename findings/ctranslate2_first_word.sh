#!/usr/bin/env bash
# The source words to which the first word of a translation attends, in a batch of CTranslate2.
#
# Guess: a sentence gets in a batch what it gets alone: the translation, and the attention.
# So:    with a beam of 2 or more, on a CPU, the first word gets the attention of another sentence. replace_unknowns
#        then copies a wrong source word. return_attention gives a wrong alignment, and coverage_penalty another score.
#        Later words are right, and so is a beam of 1.
# In:    ctranslate2 4.8.5, src/decoding.cc, BeamSearch::search. The first step runs with one beam. Its attention is
#        repeated for all beams, and then read at the number of the sentence, as if it were not.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install numpy==2.3.5 ctranslate2==4.8.5

python - <<'PYTHON' 2>/dev/null | seen "beam  source      where       translation  attention of the first word  score
1     a b c d     alone       b c          0.33 0.35 0.00 0.32          -0.66
1     a b c d     in a batch  b c          0.33 0.35 0.00 0.32          -0.66
1     d c e       alone       d c          1.00 0.00 0.00               -0.43
1     d c e       in a batch  d c          1.00 0.00 0.00               -0.43
2     a b c d     alone       b c          0.33 0.35 0.00 0.32          -0.66
2     a b c d     in a batch  b c          0.33 0.35 0.00 0.32          -0.66
2     d c e       alone       d c          1.00 0.00 0.00               -0.43
2     d c e       in a batch  c c          0.33 0.35 0.00               -0.85"
import ctranslate2
import numpy
from ctranslate2.specs import TransformerSpec, model_spec

# A Transformer with one layer, one head and random weights, whose every word is <unk>.
random = numpy.random.default_rng(1)
words, width = ["<unk>", "<s>", "</s>", "a", "b", "c", "d", "e"], 16
spec = TransformerSpec.from_config((1, 1), 1)


def fill(layer, path, value):
    if value is None:
        rows = 3 if "self_attention/linear_0" in path else 2 if "/attention/linear_1" in path else 1
        shape = (len(words) if "embeddings" in path or "projection" in path else rows * width, width)
        vector = path.endswith(("gamma", "beta"))
        setattr(layer, path.split("/")[-1], random.normal(size=width if vector else shape).astype("f"))


model_spec.visit_spec(spec, fill)
spec.decoder.projection.bias = numpy.array([99] + 7 * [0], "f")
spec.register_source_vocabulary(words)
spec.register_target_vocabulary(words)
spec.validate()
spec.save(".")
translator = ctranslate2.Translator(".", device="cpu", compute_type="float32")

sentences = ["a b c d".split(), "d c e".split()]
print("beam  source      where       translation  attention of the first word  score")
for beam in (1, 2):
    options = dict(beam_size=beam, max_decoding_length=2, return_attention=True, return_scores=True)
    options |= dict(replace_unknowns=True, coverage_penalty=0.2)
    batch = translator.translate_batch(sentences, **options)
    for i, sentence in enumerate(sentences):
        alone = translator.translate_batch([sentence], **options)[0]
        for where, result in (("alone", alone), ("in a batch", batch[i])):
            translation, attention = result.hypotheses[0], " ".join(f"{x:.2f}" for x in result.attention[0][0])
            columns = f"{beam:<5} {' '.join(sentence):11} {where:11} {' '.join(translation):12} {attention:28}"
            print(columns, f"{result.scores[0]:.2f}")
PYTHON
