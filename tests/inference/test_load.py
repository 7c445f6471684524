"""Checkpoints are read and used without fairseq; a file of no use is told of in one line."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerConfig

from fairseq_localattn.errors import UsageError
from fairseq_localattn.grammar.layers import LayerBuilder
from fairseq_localattn.inference import Options, load, search
from fairseq_localattn.inference.linear import to_int8
from fairseq_localattn.inference.sizes import Sizes, options_of, sizes_of
from fairseq_localattn.models.architectures import localattn_architectures
from support.inference.models import random_model, write_checkpoint
from support.models import CASES, parse


def test_what_the_process_may_read_stays(tmp_path: Path) -> None:
    before = set(map(id, torch.serialization.get_safe_globals()))
    load(write_checkpoint(tmp_path, *random_model("transformer_mma_tiny")))
    assert before <= set(map(id, torch.serialization.get_safe_globals()))


def test_embeddings_that_a_checkpoint_has_as_copies_are_one(tmp_path: Path) -> None:
    """So fairseq writes them from a GPU, and where it averages checkpoints."""
    model, args = random_model("transformer_mma_tiny")
    path = write_checkpoint(tmp_path, model, args)
    state = torch.load(path, weights_only=False)
    state["model"] = {name: tensor.clone() for name, tensor in state["model"].items()}
    torch.save(state, path)
    assert sum(each.numel() for each in load(path).model.parameters()) == sum(x.numel() for x in model.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_torchs_default_type_changes_nothing(dtype: torch.dtype, tmp_path: Path) -> None:
    model, args = random_model("transformer_mma_tiny")
    path, tokens = write_checkpoint(tmp_path, model, args), torch.tensor([[5, 6, 2]])
    expected = search(load(path).model, tokens, Options())
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        found = search(load(path).model, tokens, Options())
        assert len(search(to_int8(load(path).model), tokens, Options())) == 1
    finally:
        torch.set_default_dtype(before)
    assert [each.tokens for each in found[0]] == [each.tokens for each in expected[0]]


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_texts_are_those_of_the_model(name: str) -> None:
    arch, flags = CASES[name]
    args = parse(arch, flags)
    sizes = sizes_of(args)
    expected = ARCH_MODEL_REGISTRY[arch].attention_builder(TransformerConfig.from_namespace(args)).texts()
    assert LayerBuilder(sizes.texts, sizes, {}).texts() == expected
    assert Sizes.from_dict(sizes.as_dict()) == sizes


@pytest.mark.slow
def test_every_translation_architecture_is_known() -> None:
    for arch in localattn_architectures("translation"):
        assert sizes_of(parse(arch)).encoder.layers > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arch": "transformer_of_somebody", "mma_encoder_layers": None}, "none of this package's"),
        ({"mma_window": None}, "incomplete .*mma_window"),
        ({"cross_self_attention": True}, "cross_self_attention is True"),
        ({"decoder_output_dim": 32}, "decoder_output_dim is 32"),
        ({"encoder_layers_to_keep": "0"}, "encoder_layers_to_keep"),
        ({"activation_fn": "swish"}, "activation is 'swish'"),
        ({"encoder_layers": 1}, "do not fit its options: there is no encoder.layers.1"),
        ({"encoder_ffn_embed_dim": 4}, "do not fit its options: size mismatch"),
    ],
    ids=str,
)
def test_options_of_other_models_are_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    model, args = random_model("transformer_mma_tiny")
    for name, value in changes.items():
        setattr(args, name, value)
        if value is None:
            delattr(args, name)
    with pytest.raises(UsageError, match=message):
        load(write_checkpoint(tmp_path, model, args))


def test_what_is_missing_or_damaged_is_told_of(tmp_path: Path) -> None:
    model, args = random_model("transformer_mma_tiny")
    path = write_checkpoint(tmp_path, model, args)
    with pytest.raises(UsageError, match="no such file; give a checkpoint"):
        load(tmp_path / "nothing.pt")
    with pytest.raises(UsageError, match="dictionaries of its own: leave it out"):
        load(tmp_path, data=tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"empty.dict.xx.txt: no such file"):
        load(path, tmp_path / "empty")
    words = (tmp_path / "dict.xx.txt").read_text()
    for text, wrong in (
        (words + "more 1\n", "44 source words and the dictionary has 45"),
        (words + words, "stands twice"),
        ("word\n", r"dict.xx.txt:1: a line of a dictionary"),
    ):
        (tmp_path / "dict.xx.txt").write_text(text)
        with pytest.raises(UsageError, match=wrong):
            load(path)
    (tmp_path / "dict.xx.txt").write_text(words)
    model.decoder.embed_tokens.weight.data[7, 3] = torch.nan
    with pytest.raises(UsageError, match="NaN or infinity"):
        load(write_checkpoint(tmp_path, model, args))
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(UsageError, match="cannot load .*damaged"):
        load(path)


@pytest.mark.parametrize(
    ("pairs", "given", "expected"),
    [
        (["xx-yy"], {}, ("xx", "yy")),
        (["yy-xx"], {}, ("yy", "xx")),
        (["xx-yy"], {"source_lang": "yy", "target_lang": "xx"}, ("yy", "xx")),
        (["xx-yy", "xx-zz"], {}, ("xx", "yy")),
        ([], {"source_lang": "yy", "target_lang": "xx"}, ("yy", "xx")),
        (["xx-yy", "yy-xx"], {"source_lang": "yy"}, ("yy", "xx")),
        (
            ["xx-yy"],
            {"target_lang": "xx"},
            "has no files of the training such as train.de-en.de.idx: give --source-lang",
        ),
        (["xx-yy", "yy-xx"], {}, "has xx-yy, yy-xx: give --source-lang and --target-lang"),
        ([], {"source_lang": "zz", "target_lang": "xx"}, r"dict.zz.txt: no such file"),
    ],
)
def test_languages_are_those_of_the_names_of_the_data(
    pairs: list[str], given: dict[str, str], expected: tuple[str, str] | str, tmp_path: Path
) -> None:
    model, args = random_model("transformer_mma_tiny")
    path = write_checkpoint(tmp_path, model, args, source_lang=None, target_lang=None)
    for name in ("README.md", "dict.xx.txt.old-copy", *(f"train.{pair}.{pair[:2]}.idx" for pair in pairs)):
        (tmp_path / name).touch()
    if isinstance(expected, str):
        with pytest.raises(UsageError, match=expected) as told:
            load(path, **given)
        assert "\n" not in str(told.value)
    else:
        options = load(path, **given).options
        assert (options["source_lang"], options["target_lang"]) == expected


def test_a_model_that_does_not_translate_is_refused(tmp_path: Path) -> None:
    model, args = random_model("transformer_mma_tiny")
    path = write_checkpoint(tmp_path, model.encoder, args)
    with pytest.raises(UsageError, match="no model that translates"):
        load(path)


def test_options_are_found_in_every_form() -> None:
    flat = {"encoder_layers": 3, "decoder_embed_dim": 8}
    nested = {"encoder": {"layers": 3}, "decoder": {"embed_dim": 8}, "_name": "transformer"}
    for model in (flat, Namespace(**flat), nested):
        options, task = options_of({"cfg": {"model": model, "task": {"source_lang": "de"}}})
        assert options.encoder_layers == 3 and options.decoder_embed_dim == 8 and task.source_lang == "de"
    assert options_of({"args": Namespace(**flat)})[0].encoder_layers == 3
