"""What is refused in a checkpoint before fairseq reads it."""

from __future__ import annotations

import pickle
import zipfile
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils

from fairseq_localattn.stored import contents
from fairseq_localattn.stored.contents import ContentsError, read
from fairseq_localattn.stored.reading import CheckpointError


def state(**model: Any) -> dict[str, Any]:
    """Return a state in the form of fairseq's checkpoints."""
    options = Namespace(encoder_layers=2, decoder_embed_dim=8, max_source_positions=1024, dropout=0.1)
    weights = {f"encoder.layers.{n}.weight": torch.ones(8, 8) for n in range(2)}
    return {"args": None, "cfg": {"model": options}, "model": {**weights, **model}, "extra_state": {}}


def saved(path: Path, value: Any) -> str:
    torch.save(value, path)
    return str(path)


def test_a_state_as_fairseq_writes_it_passes(tmp_path: Path) -> None:
    read(saved(tmp_path / "x.pt", state(half=torch.ones(3).half(), count=torch.tensor(3))))
    legacy = tmp_path / "legacy.pt"
    torch.save(state(), legacy, _use_new_zipfile_serialization=False)
    read(str(legacy))


@pytest.mark.parametrize("weight", [torch.tensor([1.0, float("nan")]), torch.tensor([float("inf")]).half()])
def test_weights_that_are_not_finite(weight: torch.Tensor, tmp_path: Path) -> None:
    with pytest.raises(ContentsError, match="1 of 3 weights hold NaN or infinity, model.bad first"):
        read(saved(tmp_path / "x.pt", state(bad=weight)))


def test_every_changed_byte_of_a_weight_is_noticed(tmp_path: Path) -> None:
    path = Path(saved(tmp_path / "x.pt", state()))
    with zipfile.ZipFile(path) as archive:
        record = max(archive.infolist(), key=lambda record: record.file_size)
    whole = path.read_bytes()
    at = whole.index(torch.ones(8, 8).numpy().tobytes()) + 17
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(ContentsError, match="does not have the checksum") as error:
        read(str(path))
    assert "/data/" in str(error.value) and record.file_size >= 256


def test_compressed_records(tmp_path: Path) -> None:
    """A small file could become gigabytes."""
    path, packed = saved(tmp_path / "x.pt", state(zeros=torch.zeros(1_000_000))), tmp_path / "packed.pt"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for record in source.infolist():
            target.writestr(record.filename, source.read(record))
    assert packed.stat().st_size < 100_000
    with pytest.raises(ContentsError, match="is compressed"):
        read(str(packed))


def test_tensors_larger_than_their_storage(tmp_path: Path) -> None:
    with pytest.raises(ContentsError, match="model.wide claims 1,000,000,000,000 numbers"):
        read(saved(tmp_path / "x.pt", state(wide=torch.ones(1).expand(1_000_000, 1_000_000))))


def test_references_that_multiply(tmp_path: Path) -> None:
    nested: list[Any] = ["x"]
    for _ in range(40):
        nested = [nested] * 10
    with pytest.raises(ContentsError, match="more than 5,000,000 objects"):
        read(saved(tmp_path / "x.pt", {**state(), "cfg": {"task": nested}}))
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ContentsError, match="holds itself"):
        read(saved(tmp_path / "x.pt", {**state(), "cfg": {"task": circle}}))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"encoder_layers": 10**9}, r"cfg.model.encoder_layers is 1,000,000,000, and its weights allow 2 at most"),
        ({"decoder_embed_dim": 10**6}, "decoder_embed_dim is 1,000,000, and its weights allow 128"),
        (
            {"max_source_positions": 10**12},
            "max_source_positions is 1,000,000,000,000, and its weights allow 1,000,000",
        ),
        ({"data": "${oc.env:HOME}"}, r"cfg.model.data is '\$\{oc.env:HOME\}', and interpolations are not carried out"),
    ],
)
def test_options(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    found = state()
    vars(found["cfg"]["model"]).update(options)
    with pytest.raises(ContentsError, match=message):
        read(saved(tmp_path / "x.pt", found))


class Foreign:
    """A class of no checkpoint."""


@pytest.mark.parametrize("protocol", [2, 4])
def test_the_class_in_a_plain_pickle_is_named(protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(pickle.dumps(Foreign(), protocol=protocol))
    with pytest.raises(CheckpointError, match=r"refused to load .*test_contents.Foreign"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert contents.pickled_names(str(path))[0].endswith("Foreign")


def test_torchscript_is_refused_without_torchs_advice(tmp_path: Path) -> None:
    path = tmp_path / "script.pt"
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))
    with pytest.raises(CheckpointError) as error:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert "weights_only" not in str(error.value)


def test_the_newest_whole_checkpoint_is_named(tmp_path: Path) -> None:
    saved(tmp_path / "checkpoint1.pt", state())
    (tmp_path / "checkpoint2.pt").write_bytes(b"cut")
    damaged = tmp_path / "checkpoint_last.pt"
    damaged.write_bytes((tmp_path / "checkpoint1.pt").read_bytes()[:-50])
    with pytest.raises(CheckpointError, match="newest whole checkpoint beside it is .*checkpoint1.pt"):
        checkpoint_utils.load_checkpoint_to_cpu(str(damaged))
