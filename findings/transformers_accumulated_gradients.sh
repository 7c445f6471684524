#!/usr/bin/env bash
# One update of transformers' Seq2SeqTrainer from eight pairs of equal length: as one batch, and as four batches of two.
#
# Guess: gradient accumulation saves memory alone: the update and the reported loss are the same.
# So:    for Marian, BART and T5 the four gradients are added and not averaged. Update and reported loss are four times
#        as large, and clipping sets in at a quarter of the usual norm. GPT-2, the control, is right.
#        The Trainer leaves the division to every model whose forward takes **kwargs. In version 5 these models do,
#        and ignore the number of items in them. By their code so do LED, LongT5, Pegasus-X, mBART and M2M-100.
#        With label_smoothing_factor, or loss_is_scaled_for_ga = False in the Trainer, the update is right.
# In:    transformers 5.24.0, trainer.py, Trainer.training_step, and models/marian/modeling_marian.py,
#        MarianMTModel.forward; accelerate 1.15.0. Issue 47688 of transformers is open
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
install torch==2.13.0 numpy==2.3.5 transformers==5.24.0 accelerate==1.15.0

python - <<'PYTHON' 2>/dev/null | grep -v train_runtime | seen "                     times the update    times the loss
GPT-2                1.00                1.00
Marian               4.00                4.00
BART                 4.00                4.00
T5                   4.00                4.00
T5, smoothed labels  1.00                1.00
T5, told to divide   1.00                1.00"
import torch
import transformers as hf

sizes = dict(
    vocab_size=20, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1, decoder_attention_heads=1,
    encoder_ffn_dim=8, decoder_ffn_dim=8, dropout=0, decoder_start_token_id=2, pad_token_id=1)
gpt2 = hf.GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=1, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
t5 = hf.T5Config(vocab_size=20, d_model=8, d_kv=8, num_layers=1, num_heads=1, dropout_rate=0, decoder_start_token_id=0)
words = torch.randint(3, 20, (8, 2, 6), generator=torch.Generator().manual_seed(1))
pairs = [{"input_ids": source, "labels": target} for source, target in words]


def update_and_loss(kind, config, smoothing, scaled, batches):
    torch.manual_seed(1)
    model = kind(config)
    before = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    shifted = [pair | {"decoder_input_ids": pair["labels"].roll(1)} for pair in pairs] if smoothing else pairs
    options = hf.Seq2SeqTrainingArguments(
        "out", per_device_train_batch_size=8 // batches, gradient_accumulation_steps=batches, max_steps=1, optim="sgd",
        learning_rate=1, lr_scheduler_type="constant", max_grad_norm=0, label_smoothing_factor=smoothing, use_cpu=True,
        report_to=[], save_strategy="no")
    trainer = hf.Seq2SeqTrainer(model=model, args=options, train_dataset=shifted)
    trainer.loss_is_scaled_for_ga = scaled
    loss = trainer.train().training_loss
    return (torch.nn.utils.parameters_to_vector(model.parameters()) - before).norm().item(), loss


print("                     times the update    times the loss")
for name, kind, config, *options in (
        ("GPT-2", hf.GPT2LMHeadModel, gpt2, 0, None),
        ("Marian", hf.MarianMTModel, hf.MarianConfig(**sizes), 0, None),
        ("BART", hf.BartForConditionalGeneration, hf.BartConfig(**sizes), 0, None),
        ("T5", hf.T5ForConditionalGeneration, t5, 0, None),
        ("T5, smoothed labels", hf.T5ForConditionalGeneration, t5, .1, None),
        ("T5, told to divide", hf.T5ForConditionalGeneration, t5, 0, False)):
    one, four = (update_and_loss(kind, config, *options, batches) for batches in (1, 4))
    print(f"{name:21}{four[0] / one[0]:<20.2f}{four[1] / one[1]:.2f}")
PYTHON
