"""Fine-tune a model of Hugging Face's transformers with the attention of a text; nothing is downloaded.

    pip install '.[transformers]'      # in a checkout
    python examples/finetune_with_transformers.py [--text TEXT] [--steps N]

transformers 5 does not start beside a torchaudio that was built for another torch: pip uninstall torchaudio.

A tiny Llama is made, trained with ordinary attention and saved. It is loaded again with the attention of the text,
which has no parameters, and trained on. In the made language each letter depends on the one two places before it.
"""

import argparse
import tempfile

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel

import fairseq_localattn

LETTERS, LENGTH, NOISE = 12, 48, 0.1
PADDING = 0


def batch(size: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Return texts of unequal lengths, padded on the left, as a tokeniser for generation makes them."""
    text = torch.randint(1, LETTERS, (size, LENGTH), generator=generator)
    random = torch.rand(size, LENGTH, generator=generator) < NOISE
    for at in range(2, LENGTH):
        text[:, at] = torch.where(random[:, at], text[:, at], text[:, at - 2] * 5 % (LETTERS - 1) + 1)
    padding = torch.arange(LENGTH) < torch.randint(LENGTH // 2, (size, 1), generator=generator)
    return {"input_ids": text.masked_fill(padding, PADDING), "attention_mask": (~padding).long()}


def loss_of(model: PreTrainedModel, texts: dict[str, Tensor]) -> Tensor:
    """Return the mean loss of the letters after the padding."""
    return model(**texts, labels=texts["input_ids"].masked_fill(texts["attention_mask"].eq(0), -100)).loss


def train(model: PreTrainedModel, steps: int, generator: torch.Generator) -> float:
    """Train, and return the loss on new texts."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model, batch(32, generator)).backward()
        optimizer.step()
    model.eval()
    with torch.inference_mode():
        return loss_of(model, batch(500, torch.Generator().manual_seed(2))).item()


def main() -> None:
    """Train with ordinary attention, then with the attention of the text."""
    parser = argparse.ArgumentParser(description="Fine-tune a tiny made Llama with the attention of a text.")
    text = "2*local(window=4) + 2*sinks(window=4, sinks=1)"
    parser.add_argument("--text", default=text, help="of the attention (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=150, metavar="N", help="updates of either (default: %(default)s)")
    args = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are too small for more
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    letters = {"vocab_size": LETTERS, "pad_token_id": PADDING, "eos_token_id": None, "bos_token_id": None}
    config = LlamaConfig(**sizes, **letters, num_key_value_heads=2)
    made = AutoModelForCausalLM.from_config(config)
    print(f"ordinary attention: loss {train(made, args.steps, generator):.3f}")

    fairseq_localattn.attention_function(args.text).register("of_text")
    with tempfile.TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="of_text")
    print(f"{args.text}: loss {train(model, 0, generator):.3f}")
    print(f"fine-tuned: loss {train(model, args.steps, generator):.3f}")

    prompt = {name: tensor[:2] for name, tensor in batch(2, generator).items()}
    written = model.generate(**prompt, max_new_tokens=12, do_sample=False)[:, LENGTH - 1 :]
    follow = (written[:, 2:] == written[:, :-2] * 5 % (LETTERS - 1) + 1).float().mean().item()
    print(f"written letters that follow the rule: {follow:.2f}")


if __name__ == "__main__":
    main()
