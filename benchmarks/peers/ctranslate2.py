"""CTranslate2 in the part ``inference``: the plain Transformer, converted by its own command, in fp32 and int8."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.tasks.translation import TranslationTask

import fairseq_localattn
from fairseq_localattn.errors import UsageError

from ..batches import Sample
from ..settings import Settings
from ..systems import PLAIN, SYSTEMS, parse

NAME = "ctranslate2"
# Weights → the types in which CTranslate2 computes.
TYPES = {"fp32": "float32", "int8": "int8"}
CONVERTER = "ct2-fairseq-converter"
LANGUAGES = {"source_lang": "src", "target_lang": "tgt"}


class CTranslate2Search:
    """CTranslate2's beam search with a converted model, on as many threads as torch has.

    Args:
        translator: holds the converted model.
        symbols: of the joint dictionary.
        length: tokens that each hypothesis has; with fairseq's </s> in that number, both take as many steps.
        beam: hypotheses that are searched.
    """

    def __init__(self, translator: Any, symbols: list[str], *, length: int, beam: int) -> None:
        self.translator, self.symbols = translator, symbols
        self.options = {"beam_size": beam, "min_decoding_length": length, "max_decoding_length": length}
        self.length, self.written = length, 0
        self.sentences: list[list[str]] = []

    def prepare(self, item: Sample) -> None:
        """Take the words of the sources, without padding and </s>, which CTranslate2 adds itself."""
        rows = zip(item["net_input"]["src_tokens"].tolist(), item["net_input"]["src_lengths"].tolist(), strict=True)
        self.sentences = [[self.symbols[number] for number in row[len(row) - length : -1]] for row, length in rows]

    def run(self) -> None:
        """Translate the batch."""
        found = self.translator.translate_batch(self.sentences, **self.options)
        self.written = sum(len(each.hypotheses[0]) for each in found)

    def finish(self) -> None:
        """Raise RuntimeError if the model has not written the fixed number of tokens."""
        if self.written != self.length * len(self.sentences):
            raise RuntimeError(f"{NAME} wrote {self.written} tokens for {len(self.sentences)} sentences")


def searches_of(
    model: torch.nn.Module, settings: Settings, task: TranslationTask, *, length: int, beam: int
) -> dict[str, CTranslate2Search]:
    """Return the searches of a plain Transformer, named by their weights; none where they are not selected.

    Without ``--systems`` they are left out where CTranslate2 is not installed. Raises UsageError where it is asked for.
    """
    if not settings.chosen((NAME,)):
        return {}
    if importlib.util.find_spec(NAME) is None:
        if settings.systems is None:
            return {}
        raise UsageError(f"--systems {NAME}: pip install 'fairseq_localattn[benchmark]'")
    import ctranslate2

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        converted = _convert(Path(folder), model, settings, task)
        for weights, computed in TYPES.items():
            translator = ctranslate2.Translator(
                str(converted), compute_type=computed, inter_threads=1, intra_threads=torch.get_num_threads()
            )
            symbols = task.source_dictionary.symbols
            found[f"{NAME} {weights}"] = CTranslate2Search(translator, symbols, length=length, beam=beam)
    return found


def _convert(folder: Path, model: torch.nn.Module, settings: Settings, task: TranslationTask) -> Path:
    """Write a checkpoint and both dictionaries, and return the folder that CTranslate2's command makes of them."""
    args = parse(SYSTEMS[PLAIN], settings)
    vars(args).update(LANGUAGES)
    torch.save({"args": args, "model": utils.move_to_cpu(model.state_dict())}, folder / "checkpoint.pt")
    for language in LANGUAGES.values():
        task.source_dictionary.save(str(folder / f"dict.{language}.txt"))
    program = shutil.which(CONVERTER, path=Path(sys.executable).parent) or CONVERTER
    words = ["--model_path", folder / "checkpoint.pt", "--data_dir", folder, "--output_dir", folder / "converted"]
    # With the package as user_dir torch reads a checkpoint's options without --unsafe_deserialization.
    words += ["--user_dir", Path(fairseq_localattn.__file__).parent]
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"{CONVERTER}: {done.stderr.strip().splitlines()[-1]}")
    return folder / "converted"
