"""Checkpoints of random models for fairseq_localattn.inference, and fairseq's own search."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_localattn.inference import Hypothesis
from fairseq_localattn.inference.dictionary import Dictionary
from fairseq_localattn.inference.load import build as build_inference
from fairseq_localattn.inference.model import Model
from fairseq_localattn.inference.sizes import sizes_of
from support.models import CASES, build, dictionary, pad, parse, sentences, with_phrases

TIE = 1e-5  # relative difference of scores that may be exchanged
LANGUAGES = {"source_lang": "xx", "target_lang": "yy"}


def random_model(name: str) -> tuple[Any, Namespace]:
    """Return fairseq's model of a case, and its arguments; with weights by which some sentences end early."""
    arch, flags = CASES[name]
    # Products by MKL, torch's choice without fairseq, also on AMD's CPUs.
    model = build(arch, [*flags, "--localattn-cpu-matmul", "fp32"]).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5 if parameter.dim() > 1 else 1)
        last = model.decoder.layers[-1]
        name = last.sublayers[-1].norm if hasattr(last, "sublayers") else "final_layer_norm"
        norm = model.decoder.layer_norm or getattr(last, name)
        norm.bias += 1.6 * model.decoder.embed_tokens.weight[dictionary().eos()]
    return model, parse(arch, [*flags, "--share-all-embeddings"])


def without_fairseq(model: Any, args: Namespace) -> Model:
    """Return the same model as fairseq_localattn.inference has it."""
    words = Dictionary(dictionary().symbols)
    return build_inference(sizes_of(args), model.state_dict(), {"source": words, "target": words}, where="test")


def write_checkpoint(folder: Path, model: Any, args: Namespace, **task: Any) -> Path:
    """Write a checkpoint as fairseq-train does, with both dictionaries beside it."""
    path = folder / "checkpoint_best.pt"
    cfg = {"model": args, "task": {"_name": "translation", "data": "nowhere", **LANGUAGES, **task}}
    parts = {"optimizer_history": [{"num_updates": 1}], "extra_state": {}}
    torch.save({"cfg": cfg, "model": model.state_dict(), **parts}, path)
    for language in LANGUAGES.values():
        dictionary().save(str(folder / f"dict.{language}.txt"))
    return path


def batch_of(model: Any, lengths: list[int]) -> dict[str, Tensor]:
    """Return the encoder's input for random sentences, padded on the left as by fairseq's task."""
    net_input = {"src_tokens": pad(sentences(lengths), True), "src_lengths": torch.tensor(lengths)}
    return with_phrases(model, net_input)


def logits_of(model: Any, tokens: Tensor, words: Tensor) -> Tensor:
    """Return the logits T×B×V of a model of fairseq_localattn.inference for given words T×B."""
    with torch.inference_mode():
        memory, state = model.encoder(tokens), model.decoder.start()
        return torch.stack([model.decoder(each, step, memory, state) for step, each in enumerate(words)])


def fairseqs(model: Any, net_input: dict[str, Tensor], **options: Any) -> list[list[dict[str, Tensor]]]:
    """Return the hypotheses of fairseq's search."""
    prefix = options.pop("prefix", None)
    generator = SequenceGenerator([model], dictionary(), **options)
    ids = torch.arange(len(net_input["src_tokens"]))
    with torch.inference_mode():
        return generator._generate({"net_input": net_input, "id": ids}, prefix_tokens=prefix)


def assert_equal(theirs: list[list[dict[str, Tensor]]], ours: list[list[Hypothesis]]) -> None:
    """Assert that all hypotheses, scores and scores of words are equal; only ties may stand in another order."""
    exchanged = 0
    for their_best, our_best in zip(theirs, ours, strict=True):
        for their, our in zip(their_best, our_best, strict=True):
            assert abs(float(their["score"]) - our.score) < TIE * max(1, abs(our.score))
            if their["tokens"].tolist() != our.tokens:
                exchanged += 1
                continue
            torch.testing.assert_close(their["positional_scores"], torch.tensor(our.token_scores), rtol=0, atol=1e-4)
    assert exchanged <= 2
