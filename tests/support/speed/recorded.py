"""Recorded training steps on a CPU: what stands for CUDA's graphs, and how benchmarks' batches are padded."""

from __future__ import annotations

from collections.abc import Callable

from fairseq_localattn.speed.graphs.batch import Padding
from fairseq_localattn.speed.graphs.recording import CudaGraphs

# Of benchmarks/systems.py, without fairseq's own model: its attention makes NaN of a sentence that is all padding.
SYSTEMS_RECORDED = (
    "mma csan_1d csan_2d man man_encoder diffwin mgsa_ngram mgsa_syntactic relpos rope alibi t5bias localness"
).split()
PAD, EOS, NO_TAG = 1, 2, 1
PADDINGS = {
    "src_tokens": Padding(PAD, left=True, word=EOS),
    "src_lengths": Padding(0),
    "prev_output_tokens": Padding(PAD, word=EOS),
    "target": Padding(PAD, word=EOS),
    "src_phrases": Padding(0),
    "phrase_tags": Padding(NO_TAG),
}


class Again(CudaGraphs):
    """Stands for CUDA's graphs: a replay runs the function on the same tensors, and overwrites what it returned."""

    def __init__(self) -> None:
        """Without a pool of a GPU's memory."""

    def warm_up(self, function: Callable[[], None]) -> None:
        function()

    def record(self, function: Callable[[], None]) -> Callable[[], None]:
        owner = function.__self__  # type: ignore[attr-defined]

        def replay() -> None:
            for tensor in owner.logged.values() if function.__name__ == "_forward" else ():
                tensor.detach().fill_(-1)  # the loss is one of them
            function()

        function()
        return replay
