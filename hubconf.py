"""Entry point of ``torch.hub``: ``torch.hub.load(CHECKOUT, "localattn", FOLDER, source="local")``."""

from typing import Any

dependencies = ["torch", "numpy", "fairseq"]


def localattn(folder: str, checkpoint_file: str = "model.pt", data_name_or_path: str = ".", **overrides: Any) -> Any:
    """Return the trained models of a folder: fairseq's interface, with ``translate``, ``score`` or ``classify``.

    Arguments and errors are those of ``fairseq_localattn.hub.FromPretrained.from_pretrained``.
    """
    from fairseq_localattn.models.transformer import LocalTransformerModel

    return LocalTransformerModel.from_pretrained(folder, checkpoint_file, data_name_or_path, **overrides)
