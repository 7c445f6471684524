#!/usr/bin/env bash
# Whole words masked by transformers, of a line of eight words, each with a probability of 15 %.
#
# Guess: a word is masked with all of its pieces, and the words of a line apart from each other: 27 % of the lines have
#        no mask (0.85 to the power of 8), and practically none has all words masked.
# So:    with the tokenizers of DeBERTa v2 and v3 and BigBird a line is one word. 15 % of the lines are all masks, with
#        nothing to predict them from, and the others have none. There is no error.
#        A word begins where a piece's offset leaves a gap after the last piece. These tokenizers' offsets begin at the
#        space before the word, so there are no gaps. With BERT's and XLM-R's the guess is right.
# In:    transformers 5.24.0, data/data_collator.py, DataCollatorForLanguageModeling(whole_word_mask=True),
#        _calc_word_ids_and_prob_mask; tokenizers 0.23.3, offsets of Metaspace
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 tokenizers==0.23.3

python - <<'PYTHON' 2>/dev/null | seen "lines with    no mask   some words masked   all words masked
BERT            27 %           73 %                0 %
XLM-R           27 %           73 %                0 %
DeBERTa v2      85 %            0 %               15 %
BigBird         85 %            0 %               15 %"
import transformers

LINES = 10_000
line = "the minister opened the new bridge on Friday"
pieces = ["the", "min", "+ister", "open", "+ed", "new", "bridge", "on", "Fri", "+day"]


def tokenizer_of(model):
    kind = getattr(transformers, f"{model}Tokenizer")
    special = sorted(kind().get_vocab(), key=kind().get_vocab().get)
    if model == "Bert":
        words = special + [each.replace("+", "##") for each in pieces]
        return kind(vocab={word: number for number, word in enumerate(words)}, do_lower_case=False)
    words = [each[1:] if each[0] == "+" else f"▁{each}" for each in pieces]
    return kind(vocab=[(word, 0.0) for word in special] + [(word, -1.0) for word in words])


print("lines with    no mask   some words masked   all words masked")
for name, model in (("BERT", "Bert"), ("XLM-R", "XLMRoberta"), ("DeBERTa v2", "DebertaV2"), ("BigBird", "BigBird")):
    tokenizer = tokenizer_of(model)
    encoded = dict(tokenizer(line, return_offsets_mapping=True, return_special_tokens_mask=True))
    assert len(encoded["input_ids"]) == len("the min ister open ed the new bridge on Fri day".split()) + 2
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, whole_word_mask=True, seed=1)
    masked = collator([dict(encoded) for _ in range(LINES)])["input_ids"][:, 1:-1] == tokenizer.mask_token_id
    counts = masked.sum(1)
    shares = [(counts == 0), (counts > 0) & (counts < masked.shape[1]), counts == masked.shape[1]]
    print(f"{name:13}" + "{:5.0f} %{:13.0f} %{:17.0f} %".format(*(100 * each.float().mean() for each in shares)))
PYTHON
