"""Accuracy of a classifier on a split, exactly counted, with its confidence interval; and its predictions.

    python -m fairseq_localattn.analysis.accuracy DATA --path CHECKPOINT [--gen-subset test] [--predictions FILE]

fairseq-validate rounds accuracy to a tenth and tells no sentence. The predictions, one line a sentence of the data set
in order, are ``label<TAB>prediction``: what a paired test of two systems needs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from fairseq import utils

from ..errors import UsageError
from ..models.classifier import PlainClassifier
from .command import check_files, show_progress_alone
from .evaluation import Split, Trained, load_trained, to_device, with_progress

Z_95 = 1.959964  # the normal distribution's 97.5 % point


def wilson_interval(correct: int, total: int, z: float = Z_95) -> tuple[float, float]:
    """The confidence interval of a share ``correct / total`` (Wilson 1927), from 0 to 1; of 95 % by default.

    Raises ValueError unless 0 ≤ correct ≤ total and 0 < total.
    """
    if not 0 <= correct <= total or total < 1:
        raise ValueError(f"{correct} of {total} is no share")
    share = correct / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, centre - half), min(1.0, centre + half)


def read_sentences(trained: Trained, name: str, max_tokens: int) -> Split:
    """All batches of a split. Raises UsageError where it is not there, or has a sentence that the model cannot read."""
    task = trained.task
    try:
        task.load_dataset(name)
    except (AssertionError, FileNotFoundError):
        raise UsageError(f"--gen-subset {name}: no such split in {task.cfg.data}") from None
    dataset = task.dataset(name)
    positions = utils.resolve_max_positions(task.max_positions(), trained.model.max_positions())
    _, too_long = dataset.filter_indices_by_size(dataset.ordered_indices(), positions)
    if too_long:
        raise UsageError(
            f"{len(too_long)} sentences of {name} are longer than {positions} tokens, all that the model can read; "
            "train it with more --max-positions, or with --shorten-method truncate"
        )
    longest = max(map(dataset.num_tokens, range(len(dataset))))
    if longest > max_tokens:
        raise UsageError(f"--max-tokens {max_tokens}: {name} has a sentence of {longest} tokens; give that or more")
    batches = task.get_batch_iterator(dataset, max_tokens=max_tokens).next_epoch_itr(shuffle=False)
    return Split(name, batches, len(dataset), 0)


def predict(trained: Trained, split: Split, head: str, label: str = "") -> list[tuple[int, int]]:
    """(label, prediction) of each sentence, in the data set's order.

    Raises RuntimeError if a sentence was not among the batches, and UsageError if the split has no labels.
    """
    found: dict[int, tuple[int, int]] = {}
    progress = with_progress(split, label)
    with torch.inference_mode():
        for batch in progress:
            if "target" not in batch:
                raise UsageError(f"the split {split.name} has no labels")
            sample = to_device(batch, trained.device)
            scores, _ = trained.model(**sample["net_input"], classification_head_name=head)
            rows = zip(batch["id"].tolist(), batch["target"].view(-1).tolist(), scores.argmax(-1).tolist(), strict=True)
            found.update({number: (wanted, got) for number, wanted, got in rows})
    if sorted(found) != list(range(split.sentences)):
        raise RuntimeError(f"{len(found)} sentences were read, of {split.sentences}")
    return [found[number] for number in range(split.sentences)]


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn.analysis.accuracy",
        description="Print the accuracy of a classifier on a split, with its 95 %% confidence interval.",
    )
    parser.add_argument("data", metavar="DATA", help="folder with input0 and label, that fairseq-preprocess wrote")
    parser.add_argument("--path", required=True, metavar="CHECKPOINT")
    parser.add_argument("--gen-subset", default="test", metavar="SPLIT", help="split to measure (default: test)")
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="write label and prediction of each sentence")
    parser.add_argument("--max-tokens", type=int, default=8000, metavar="N", help="of a batch (default: %(default)s)")
    parser.add_argument("--cpu", action="store_true", help="do not use the GPU")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Print the accuracy; write the predictions where asked for."""
    args = make_parser().parse_args(argv)
    show_progress_alone()
    check_files([args.path], {"--predictions": args.predictions}, None)
    trained = load_trained(args.path, args.data, args.cpu, PlainClassifier, "a classifier of this package")
    head = next(iter(trained.model.classification_heads))
    if trained.task.cfg.regression_target:
        raise UsageError(f"{args.path} was trained with --regression-target: it has no classes to be right about")
    split = read_sentences(trained, args.gen_subset, args.max_tokens)
    pairs = predict(trained, split, head, trained.architecture)
    correct = sum(wanted == got for wanted, got in pairs)
    low, high = wilson_interval(correct, len(pairs))
    shares = f"{100 * correct / len(pairs):.2f} (95 % interval {100 * low:.2f} to {100 * high:.2f})"
    print(f"{args.path}: {trained.architecture}, {split.name}: accuracy {shares}, {correct} of {len(pairs)} sentences")
    if args.predictions is not None:
        args.predictions.write_text("".join(f"{wanted}\t{got}\n" for wanted, got in pairs), encoding="utf-8")


if __name__ == "__main__":
    main()
