#!/usr/bin/env bash
# Sampled segmentations (BPE-dropout, subword regularization) of a batch of lines, by SentencePiece with a seed.
#
# Guess: set_random_generator_seed makes a run repeatable. Within a run each epoch still has other segmentations,
#        whether the lines are encoded one by one or as a list.
# So:    with one thread a list is segmented alike in every call, so each epoch shows the model the same pieces. Each
#        call with a list makes new threads, and each new thread starts its generator from the seed. With more threads
#        short lists mostly repeat as well. Long ones vary with which thread takes which line, so the run is not
#        repeatable either. Lines one by one go on with one generator, as a ThreadPool that is kept does.
# In:    sentencepiece 0.2.3, src/util.cc, GetRandomGeneratorStorage, and src/sentencepiece/sentencepiece_pybind.cc,
#        WorkerPool; with one thread also 0.1.99, 0.2.0 and 0.2.1
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install sentencepiece==0.2.3

python - <<'PYTHON' | seen "different among 10 epochs      bpe  unigram
no seed, a list                10   10
seed, lines one by one         10   10
seed, a list                   1    1
seed, a list and one's pool    10   10"
import io

import sentencepiece

ends = ["forming", "ported", "vention", "sisting", "ferences", "verted"]
lines = [" ".join(begin + end for end in ends) for begin in ("trans", "re", "in", "con", "per", "pre")]
models = []
for kind in ("bpe", "unigram"):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type=kind, vocab_size=40, minloglevel=2
    )
    models.append(sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()))


def epochs(name, encode):
    counts = [len({str(encode(model)) for _ in range(10)}) for model in models]
    print(f"{name:30} {counts[0]:<4} {counts[1]}")


sampled = {"enable_sampling": True, "alpha": 0.3, "nbest_size": -1}
print("different among 10 epochs      bpe  unigram")
epochs("no seed, a list", lambda model: model.encode(lines, num_threads=1, **sampled))
sentencepiece.set_random_generator_seed(1)
epochs("seed, lines one by one", lambda model: [model.encode(line, **sampled) for line in lines])
epochs("seed, a list", lambda model: model.encode(lines, num_threads=1, **sampled))
pool = sentencepiece.ThreadPool(1)
epochs("seed, a list and one's pool", lambda model: model.encode(lines, thread_pool=pool, **sampled))
PYTHON
