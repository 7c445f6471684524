"""The parts of a phrase memory: reductions over phrases in both forms, and their precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fairseq_localattn.mechanisms.phrase_memory.compose import MaxComposition, SelfAttentionComposition
from fairseq_localattn.mechanisms.phrase_memory.partition import DENSE_UP_TO, Partition, ngram_lengths, partition_of
from fairseq_localattn.mechanisms.phrase_memory.recurrent import Recurrence
from fairseq_localattn.mechanisms.phrase_memory.reductions import normalise_in_phrases, sum_phrases


def padding_of(lengths: list[int], left: bool, to: int) -> Tensor:
    places = torch.arange(to)
    return torch.stack([places < to - n if left else places >= n for n in lengths])


def test_half_precision_sums_and_shares_are_those_of_fp32() -> None:
    """The softmax over a phrase and sums of many small numbers are rounded once, at the end."""
    padding = padding_of([2000], left=False, to=2000)
    partition = partition_of(torch.tensor([[[2000]]]), padding)
    values = torch.full((1, 2000, 1), 0.25, dtype=torch.bfloat16)
    assert sum_phrases(values, torch.ones(1, 1, 2000), partition).item() == 500
    shares = normalise_in_phrases(torch.zeros(1, 1, 2000, dtype=torch.bfloat16), partition)
    assert shares.dtype == torch.float32
    torch.testing.assert_close(shares.sum(), torch.tensor(1.0))
    cell = Recurrence(2, 6, 16, ordered=True).bfloat16()
    inputs = torch.randn(3, 2, 30, cell.bias.size(-1)).bfloat16()
    assert torch.equal(cell.run(inputs), cell.float().run(inputs.float()).bfloat16())


def test_shares_of_large_scores() -> None:
    """Padding has none, nor has an empty sentence."""
    partition = partition_of(torch.tensor([[[2, 1, 0]], [[0, 0, 0]]]), padding_of([3, 0], left=False, to=4))
    scores = torch.tensor([[[1000.0, 1000.0, -1000.0, 9e9]], [[0.0] * 4]])
    assert normalise_in_phrases(scores, partition).flatten(1).tolist() == [[0.5, 0.5, 1.0, 0.0], [0.0] * 4]


@pytest.mark.parametrize("kind", [MaxComposition, SelfAttentionComposition])
@pytest.mark.parametrize("left", [True, False])
def test_dense_products_give_what_rows_give(kind: type[nn.Module], left: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Phrases and gradients as a GPU computes them, here on a CPU, also of equal words and of an empty sentence."""
    torch.manual_seed(0)
    padding = padding_of([7, 1, 0, 9], left, to=9)
    lengths = torch.cat([ngram_lengths(padding, [2, 4]), ngram_lengths(padding, [9]).expand(-1, -1, 5).clone()], dim=1)
    lengths[:, 2, 1:] = 0  # one phrase, as long as the sentence
    module: Any = kind(4, 6, 3).double()
    words = torch.randn(4, 9, 6, dtype=torch.float64)
    words[0, 3], words[3, 2:5, :4] = words[0, 4], words[3, 1:2, :4]
    found = []
    for dense in (False, True):
        monkeypatch.setattr(Partition, "dense", dense)
        partition, x = partition_of(lengths, padding), words.clone().requires_grad_()
        phrases = module(x, partition, [0, 1, 1, 2]).masked_fill(partition.of([0, 1, 1, 2]).hidden[..., None], 0)
        (phrases * torch.arange(phrases.numel()).view_as(phrases).cos()).sum().backward()
        found.append([phrases, x.grad, *(parameter.grad for parameter in module.parameters())])
        module.zero_grad()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-13)
    assert found[0][0].abs().sum() > 0 and found[0][1].abs().sum() > 0


def test_dense_products_are_for_sentences_on_a_gpu() -> None:
    def is_dense(length: int, device: str) -> bool:
        padding = torch.zeros(2, length, dtype=torch.bool, device=device)
        return partition_of(ngram_lengths(padding, [4]), padding, longest=4).dense

    assert is_dense(DENSE_UP_TO, "meta")
    assert not is_dense(DENSE_UP_TO + 1, "meta") and not is_dense(9, "cpu")
