"""Files of weights in the format safetensors, which holds tensors and nothing else. Torch alone.

A file is the length of its header, 8 bytes; the header, JSON of each tensor's type, shape and place; and the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..errors import UsageError
from ..files import replaced

TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "I8": torch.int8}
NAMES = {kind: name for name, kind in TYPES.items()}
MOST_HEADER = 1 << 26  # bytes


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a file, whole or not at all."""
    header, at = {}, 0
    for name, tensor in tensors.items():
        end = at + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with replaced(path) as part, open(part, "wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            stream.write(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())


def read(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file. Raises UsageError for one that is damaged or none."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if not 0 < length <= min(size - 8, MOST_HEADER):
                raise ValueError("it is no file of safetensors")
            header = json.loads(stream.read(length))
        data = torch.from_file(str(path), size=size, dtype=torch.uint8)[8 + length :]
        return {name: _tensor(data, **about) for name, about in header.items() if name != "__metadata__"}
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError, RecursionError) as error:
        detail = " ".join(str(error).split())[:100]
        raise UsageError(f"{path}: is damaged or cut short ({detail}); export the model again") from None


def _tensor(data: Tensor, dtype: str, shape: list[int], data_offsets: list[int]) -> Tensor:
    """Return a tensor in the data of a file. Raises ValueError where it is not whole."""
    (start, end), kind = data_offsets, TYPES[dtype]
    size = math.prod(shape) * kind.itemsize
    if min(shape, default=0) < 0 or end - start != size or not 0 <= start <= end <= len(data):
        raise ValueError("a tensor is not whole")
    return data[start:end].clone().view(kind).view(shape)
