"""Accuracy of a classifier on a split, with its confidence interval, and its predictions.

    python -m fairseq_localattn.analysis.accuracy DATA --path CHECKPOINT [--gen-subset test] [--predictions FILE]

fairseq-validate rounds accuracy to a tenth of a percent and writes no predictions. The file of predictions has a line
``label<TAB>prediction`` for each sentence in the order of the data set, as a paired test of two systems needs it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from scipy.stats import binomtest

from ..errors import UsageError
from ..models.classifier import PlainClassifier
from .command import add_user_dir, check_files, show_progress_alone, written
from .evaluation import Split, Trained, load_trained, read_split, to_device, with_progress


def wilson_interval(correct: int, total: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of the share ``correct / total`` (Wilson 1927), from 0 to 1.

    Raises ValueError unless 0 ≤ correct ≤ total and 0 < total.
    """
    if not 0 <= correct <= total or total < 1:
        raise ValueError(f"{correct} of {total} is no share")
    interval = binomtest(correct, total).proportion_ci(confidence_level=0.95, method="wilson")
    return float(interval.low), float(interval.high)


def predict(trained: Trained, split: Split, head: str, label: str = "") -> list[tuple[int, int]]:
    """Return (label, prediction) of each sentence, in the order of the data set.

    Args:
        trained: the classifier.
        split: all sentences of a data set.
        head: name of the classification head.
        label: name of the model, shown with the progress.

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
            pairs = zip(batch["target"].view(-1).tolist(), scores.argmax(-1).tolist(), strict=True)
            found.update(zip(batch["id"].tolist(), pairs, strict=True))
    if sorted(found) != list(range(split.sentences)):
        raise RuntimeError(f"{len(found)} sentences were read, of {split.sentences}")
    return [found[number] for number in range(split.sentences)]


def make_parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn.analysis.accuracy",
        description="Print the accuracy of a classifier on a split, with its 95 % confidence interval.",
    )
    parser.add_argument("data", metavar="DATA", help="folder with input0 and label, that fairseq-preprocess wrote")
    parser.add_argument("--path", required=True, metavar="CHECKPOINT")
    parser.add_argument("--gen-subset", default="test", metavar="SPLIT", help="split to measure (default: test)")
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="write label and prediction of each sentence")
    parser.add_argument("--max-tokens", type=int, default=8000, metavar="N", help="of a batch (default: %(default)s)")
    parser.add_argument("--cpu", action="store_true", help="do not use the GPU")
    add_user_dir(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Print the accuracy and, on request, write the predictions."""
    args = make_parser().parse_args(argv)
    show_progress_alone()
    check_files([args.path], {"--predictions": args.predictions}, None)
    what = "a classifier of this package"
    trained = load_trained(args.path, args.data, args.cpu, kind=PlainClassifier, what=what)
    head = next(iter(trained.model.classification_heads))
    if trained.task.cfg.regression_target:
        raise UsageError(f"{args.path} was trained with --regression-target: it has no classes to be right about")
    split = read_split(trained, args.gen_subset, args.max_tokens, skip_long=False)
    pairs = predict(trained, split, head, trained.architecture)
    correct = sum(label == prediction for label, prediction in pairs)
    low, high = wilson_interval(correct, len(pairs))
    shares = f"{100 * correct / len(pairs):.2f} (95 % interval {100 * low:.2f} to {100 * high:.2f})"
    print(f"{args.path}: {trained.architecture}, {split.name}: accuracy {shares}, {correct} of {len(pairs)} sentences")
    if args.predictions is not None:
        with written(args.predictions) as part:
            part.write_text("".join(f"{label}\t{prediction}\n" for label, prediction in pairs), encoding="utf-8")


if __name__ == "__main__":
    main()
