"""Train a mechanism in a plain PyTorch loop, without fairseq: this needs torch and NumPy alone.

    python examples/attention_without_fairseq.py [--steps N] [--text TEXT]

The task asks for a neighbour: the model reads a row of random letters and has to write, at each place, the letter that
stands one place before. A window of three positions sees it; the distances come from learned position embeddings.
With a text, such as "2*local + 2*global", the layer is torch's nn.TransformerEncoderLayer with the text's attention.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fairseq_localattn
from fairseq_localattn.mechanisms.convolutional import ConvolutionalAttention

LETTERS, PADDING, LENGTH = 12, 0, 16


class Reader(nn.Module):
    """One layer of windowed self-attention between an embedding and a classifier of letters."""

    def __init__(self, dim: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, dim, padding_idx=PADDING)
        self.places = nn.Embedding(LENGTH, dim)
        # Any mechanism goes here: MixedAttention, DynamicMaskAttention, AdditiveWindowAttention, ...
        self.attention = ConvolutionalAttention(dim, heads, window=3, head_span=3, self_attention=True)
        self.norm = nn.LayerNorm(dim)
        self.classifier = nn.Linear(dim, LETTERS)

    def forward(self, text: Tensor) -> Tensor:
        """Return logits B×T×LETTERS for letters B×T."""
        padding = text.eq(PADDING)  # B×T, True = padding
        x = (self.letters(text) + self.places.weight[: text.size(1)]).transpose(0, 1)  # T×B×C, as in fairseq
        attended, _ = self.attention(x, x, x, key_padding_mask=padding, need_weights=False)
        return self.classifier(self.norm(x + attended)).transpose(0, 1)


class TorchReader(nn.Module):
    """One layer of torch's Transformer, with the attention of a text, between an embedding and a classifier."""

    def __init__(self, text: str, dim: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, dim, padding_idx=PADDING)
        self.places = nn.Embedding(LENGTH, dim)
        self.layer = nn.TransformerEncoderLayer(dim, heads, dim_feedforward=2 * dim, dropout=0.0, batch_first=True)
        # In the place of torch.nn.MultiheadAttention, with its arguments and its masks.
        attention = fairseq_localattn.attention(text, dim, heads, batch_first=True)
        self.layer.self_attn = attention  # type: ignore[assignment]
        self.classifier = nn.Linear(dim, LETTERS)

    def forward(self, text: Tensor) -> Tensor:
        """Return logits B×T×LETTERS for letters B×T."""
        x = self.letters(text) + self.places.weight[: text.size(1)]
        return self.classifier(self.layer(x, src_key_padding_mask=text.eq(PADDING)))


def batch(size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return texts B×T, padded on the right, and their letters one place earlier; the first place has none."""
    text = torch.randint(1, LETTERS, (size, LENGTH), generator=generator)
    lengths = torch.randint(LENGTH // 2, LENGTH + 1, (size, 1), generator=generator)
    text[torch.arange(LENGTH) >= lengths] = PADDING
    wanted = text.roll(1, dims=1).masked_fill(text.eq(PADDING), PADDING)
    wanted[:, 0] = PADDING
    return text, wanted


def main() -> float:
    """Train, and return the accuracy on new texts."""
    parser = argparse.ArgumentParser(description="Train windowed attention in a plain PyTorch loop.")
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="updates (default: %(default)s)")
    parser.add_argument("--text", help="attention inside of torch's TransformerEncoderLayer, described by a text")
    args = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are too small for more
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(1)
    model = TorchReader(args.text) if args.text else Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for step in range(1, args.steps + 1):
        text, wanted = batch(64, generator)
        loss = F.cross_entropy(model(text).flatten(0, 1), wanted.flatten(), ignore_index=PADDING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    model.eval()
    with torch.inference_mode():
        text, wanted = batch(500, generator)
        right = model(text).argmax(-1).eq(wanted)[wanted.ne(PADDING)].float().mean().item()
    print(f"accuracy on new texts: {right:.3f}")
    return right


if __name__ == "__main__":
    main()
