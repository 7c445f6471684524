"""What holds for attention by every word of the grammar."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from fairseq_localattn import attention
from fairseq_localattn.core.banded import BANDED_FROM
from fairseq_localattn.grammar.torch_module import DescribedAttention
from fairseq_localattn.kernels.dense import PRODUCTS_UP_TO, SKIPPED_FROM
from support.mechanisms.texts import HERE

DIM, HEADS = 16, 4
MIXES = ["2*alibi + 2*t5", "alibi & local(window=3)", "2*(alibi & shaw) + 2*global", "t5 & local(window=3) & rope"]
EVERY = [(text, site) for site in HERE for text in HERE[site]]
EVERY += [(text, site) for text in MIXES for site in ("encoder", "decoder")]
every_attention = pytest.mark.parametrize(("text", "site"), EVERY)


def run(module: DescribedAttention, length: int, *, batch: int = 2, keys: int | None = None, padded: bool = False):
    """Return the output T×B×C; in a decoder's site with a causal mask, and padded on the left of the first sentence."""
    x = torch.randn(length, batch, DIM, requires_grad=True)
    memory = torch.randn(length if keys is None else keys, batch, DIM) if module.site == "cross" else x
    padding = torch.zeros(batch, memory.size(0), dtype=torch.bool)
    padding[:1, :3] = True
    mask = {"key_padding_mask": padding} if padded else {}
    if module.site == "decoder":
        mask["attn_mask"] = torch.ones(length, length, dtype=torch.bool).triu(1)
    return module(x, memory, memory, need_weights=False, **mask)[0]


@pytest.mark.parametrize("padded", [False, True])
@every_attention
def test_none_leaves_torchs_fused_kernel(text: str, site: str, padded: bool) -> None:
    """Without the kernel that is no kernel, torch raises an error where it would leave its fused one."""
    module = attention(text, DIM, HEADS, site=site)
    for length in (PRODUCTS_UP_TO + 1, max(BANDED_FROM, SKIPPED_FROM) + 1):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            run(module.train(), length, padded=padded).sum().backward()
            with torch.no_grad():
                run(module.eval(), length, padded=padded)
