"""Programs of torch.export and ONNX compute what the model does, for any batch and any lengths."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_localattn.errors import UsageError
from fairseq_localattn.inference import load
from fairseq_localattn.inference.dictionary import EOS, PAD
from fairseq_localattn.inference.export import main
from fairseq_localattn.inference.linear import Int8Linear, to_int8
from fairseq_localattn.inference.programs import programs_of
from support.inference.models import batch_of, logits_of, random_model, without_fairseq, write_checkpoint
from support.models import TINY

LENGTHS = [5, 9, 7], [20], [1, 2]
Run = Callable[..., Any]


def run_card(folder: Path, tokens: Any) -> Any:
    """Run the code of a model card in its folder, and return the logits of the first step."""
    names: dict[str, Any] = {"tokens": tokens}
    (code,) = re.findall(r"^```python\n(.*?)^```", (folder / "README.md").read_text(), re.M | re.S)
    with contextlib.chdir(folder), torch.no_grad():
        exec(code, names)
    return torch.as_tensor(names["logits"])


def assert_equal(model: Any, encoder: Run, decoder: Run, least: int) -> None:
    """Compare the logits of three steps, for batches whose shapes are none of those of the export."""
    for lengths in LENGTHS:
        tokens = batch_of(model, lengths)["src_tokens"]
        words = torch.tensor([[EOS] * len(lengths), [5, 9, 30][: len(lengths)], [8, 6, 7][: len(lengths)]])
        padding, memory, past = encoder(F.pad(tokens, (max(0, least - tokens.size(1)), 0), value=PAD))
        found = []
        for step, each in enumerate(words):
            logits, past = decoder(each, torch.tensor(step), padding, memory, past)
            found.append(logits)
        torch.testing.assert_close(torch.stack(found), logits_of(model, tokens, words), rtol=1e-4, atol=1e-4)


def systems(quick: str, *without: str) -> list[Any]:
    """Return the names of all models but some as parameters of a test; all but ``quick`` are attacks."""
    return [pytest.param(n, marks=() if n == quick else pytest.mark.attack) for n in TINY if n not in without]


@pytest.mark.slow
@pytest.mark.parametrize("name", systems("transformer_man_tiny", "transformer_mgsa_tiny"))
def test_programs_compute_what_the_model_does(name: str) -> None:
    model, args = random_model(name)
    found = programs_of(without_fairseq(model, args))
    assert found.least == (16 if name.split("_")[1] in ("diffwin", "mgsa", "blocksan") else 1)
    with torch.no_grad():
        assert_equal(without_fairseq(model, args), found.encoder.module(), found.decoder.module(), found.least)


def test_phrases_of_trees_are_refused() -> None:
    with pytest.raises(UsageError, match="phrases of trees cannot be exported: their number and depth"):
        programs_of(without_fairseq(*random_model("transformer_mgsa_tiny")))


@pytest.mark.slow
def test_a_folder_of_programs_is_used_by_other_software(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, *random_model("transformer_mma_tiny"))
    main(["--path", str(path), "--to", str(tmp_path / "model"), "--format", "pt2", "--int8"])
    about = json.loads((tmp_path / "model" / "model.json").read_text())["programs"]
    assert about["format"] == "pt2" and about["least_tokens"] == 1
    assert about["past"][:2] == ["layers.0.self_attn.prev_key", "layers.0.self_attn.prev_value"]
    tokens = torch.tensor([[5, 6, 7, EOS]])
    model = to_int8(load(path).model)
    for module in model.modules():
        if isinstance(module, Int8Linear):
            module.prepacked = None  # a program has a scale for each row
    with torch.enable_grad():  # else projections are joined, and packed again
        expected = model.decoder(torch.tensor([EOS]), 0, model.encoder(tokens), {})
    torch.testing.assert_close(run_card(tmp_path / "model", tokens), expected, rtol=1e-3, atol=1e-3)
    with pytest.raises(UsageError, match="holds programs for other software, which are not run here"):
        load(tmp_path / "model")


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("onnxruntime") or not find_spec("onnxscript"), reason="needs the extra onnx")
@pytest.mark.parametrize(
    "name", systems("transformer_mma_tiny", "transformer_mgsa_tiny", "transformer_mgsa_ngram_tiny")
)
def test_onnx_runtime_computes_what_the_model_does(name: str, tmp_path: Path) -> None:
    onnxruntime: Any = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    model, args = random_model(name)
    path = write_checkpoint(tmp_path, model, args)
    main(["--path", str(path), "--to", str(tmp_path / "model"), "--format", "onnx"])
    about = json.loads((tmp_path / "model" / "model.json").read_text())["programs"]
    memory, past = about["memory"], about["past"]
    sessions = {
        part: onnxruntime.InferenceSession(tmp_path / "model" / f"{part}.onnx") for part in ("encoder", "decoder")
    }

    def encoder(tokens: Tensor) -> tuple[Any, list[Any], list[Any]]:
        padding, *state = sessions["encoder"].run(None, {"tokens": tokens.numpy()})
        return padding, state[: len(memory)], state[len(memory) :]

    def decoder(words: Tensor, step: Tensor, padding: Any, *state: list[Any]) -> tuple[Tensor, list[Any]]:
        given = dict(zip([*memory, *past], [*state[0], *state[1]], strict=True))
        given |= {"words": words.numpy(), "step": step.numpy(), "padding": padding}
        logits, *new = sessions["decoder"].run(None, given)
        return torch.from_numpy(logits), new

    whole, tokens = without_fairseq(model, args), torch.tensor([[5, 6, 7, EOS] * 4])
    assert_equal(whole, encoder, decoder, about["least_tokens"])
    expected = logits_of(whole, tokens, torch.tensor([[EOS]]))[0]
    torch.testing.assert_close(run_card(tmp_path / "model", tokens.numpy()), expected, rtol=1e-4, atol=1e-4)
