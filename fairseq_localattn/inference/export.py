"""Export a trained model as a folder of data, which is translated without fairseq and without its checkpoint.

python -m fairseq_localattn export --path CHECKPOINT --to FOLDER
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from ..files import write_whole
from . import folder, programs
from .linear import packed, to_int8
from .load import Trained, load
from .text import OPTIONS, add_text_flags, chosen, text_of


def scores_of(path: Path, row: str | None) -> list[str]:
    """Return the lines of a table of the scores of a row in a CSV of results. Raises UsageError without any."""
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            found = list(csv.DictReader(stream))
        rows = [each for each in found if each["row"] == row]
        keys = ("scale", "seed", "metric", "score", "signature", "date")
        lines = ["| " + " | ".join(each[key].replace("|", " ") for key in keys) + " |" for each in rows]
    except OSError as error:
        raise UsageError(f"--results {path}: cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, csv.Error):
        raise UsageError(f"--results {path}: is no CSV of results: give one of results/<paper>/") from None
    if not lines:
        known = ", ".join(dict.fromkeys(each["row"] for each in found)) or "none"
        raise UsageError(f"--row {row}: {path} has no such row: choose from {known}")
    return ["", "| " + " | ".join(keys) + " |", "|---|---|---|---|---|---|", *lines]


USE = ["```bash", "python -m fairseq_localattn translate --path . < raw > translated", "```"]


OF_TREES = "its phrases come from trees: load it and call search(model, tokens, options, phrases=…)"


def use_of(format: str, of_trees: bool = False) -> list[str]:
    """Return the lines of a card that say how a folder of a format is used."""
    if format == "safetensors":
        return [f"To translate: {OF_TREES}, of `fairseq_localattn.inference`."] if of_trees else USE
    return [
        "Encoder and a step of the decoder are programs, and this is the first step. `tokens`: B×T, 64-bit numbers of",
        "words, each sentence with its end, 2, padded by 1. Line n of `dict.source.txt` and `dict.target.txt` is word",
        "n + 3. `logits`: B×V. The next step has the chosen `words`, the next `step` and the new `past`.",
        *("", "```python", *programs.CALLS[format].strip().splitlines(), "```"),
    ]


def card(trained: Trained, license: str | None, scores: Sequence[str] = (), use: Sequence[str] = USE) -> str:
    """Return the model card, in Markdown; ``scores`` and ``use``: its lines on these."""
    sizes, options = trained.model.sizes, trained.options
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    pair = " → ".join(str(options.get(f"{side}_lang") or "?") for side in ("source", "target"))
    texts = sizes.texts or {"all sites": "san"}
    widths = dict.fromkeys((sizes.encoder.embed_dim, sizes.decoder.embed_dim))
    data = options.get("data")
    lines = [
        *("---", f"license: {license or 'unknown'}", "tags: [translation]", "---", ""),
        *(f"# Translation {pair}", ""),
        *("| | |", "|---|---|"),
        f"| parameters | {parameters:,} |",
        *(f"| attention, {site} | `{text}` |" for site, text in texts.items()),
        *(["| weights | 8 bits in linear layers, a scale for each output channel |"] if options.get("int8") else []),
        f"| layers | {sizes.encoder.layers} and {sizes.decoder.layers}, {' and '.join(map(str, widths))} wide |",
        f"| words | {len(trained.source):,} and {len(trained.target):,} |",
        f"| text | tokeniser {options.get('tokenizer') or 'none'}, subwords {options.get('bpe') or 'none'} |",
        f"| longest sentence | {sizes.max_source_positions} tokens |",
        f"| training data | {Path(str(data)).resolve().name if data else 'not stated'} |",
        *scores,
        *("", "Intended use: translation of sentences like those of the training data. Other text may be"),
        "translated wrongly without a sign of it.",
        *("", *use, ""),
    ]
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    found = argparse.ArgumentParser(prog="python -m fairseq_localattn export", description=__doc__.split("\n")[0])
    add = found.add_argument
    add("--path", required=True, metavar="CHECKPOINT", help="of fairseq-train")
    add("--to", required=True, type=Path, metavar="FOLDER", help="a new folder, or one without a model")
    add_text_flags(add)
    add("--license", metavar="NAME", help="of the weights, for the model card")
    add("--format", choices=("safetensors", *programs.FORMATS), default="safetensors", help="default: safetensors")
    add("--int8", action="store_true", help="weights of 8 bits, a scale for each output channel")
    add("--results", type=Path, metavar="CSV", help="of results/, for the model card's scores; with --row")
    add("--row", metavar="NAME", help="of --results, that of this model")
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Write the folder."""
    args = parser().parse_args(argv)
    programs.check_format(args.format)
    if args.int8 and args.format == "onnx":
        raise UsageError("--int8 --format onnx: use onnxruntime's quantize_dynamic on programs without --int8")
    if (args.results is None) != (args.row is None):
        raise UsageError("--results and --row: give both, or none")
    folder.check_new(args.to, *programs.files_of(args.format))
    scores = [] if args.results is None else scores_of(args.results, args.row)
    trained = load(args.path, args.data, source_lang=args.source_lang, target_lang=args.target_lang)
    if trained.options.get("int8"):
        raise UsageError(
            f"--path {args.path}: has weights of 8 bits, which are not exported again: give its checkpoint"
        )
    options = chosen(trained.options, {name: getattr(args, name) for name in OPTIONS})
    options["int8"] = args.int8 or None
    text_of(options)  # raises now for what cannot be read
    trained = Trained(trained.model, trained.source, trained.target, options)
    dictionaries = {"source": trained.source, "target": trained.target}
    model = trained.model
    about = card(trained, args.license, scores, use_of(args.format, model.encoder.of_trees))
    weights = packed(model) if args.int8 else model.state_dict()
    if args.format == "safetensors":
        folder.save(args.to, model.sizes, weights, dictionaries, options)
        use = f"python -m fairseq_localattn translate --path {args.to} < raw > translated"
        use = OF_TREES if model.encoder.of_trees else use
    else:
        found = programs.programs_of(to_int8(model) if args.int8 else model)._replace(format=args.format)
        programs.write(found, args.to)
        folder.save(args.to, model.sizes, {}, dictionaries, options, found.about())
        use = f"encoder and decoder as programs ({args.format})"
    write_whole(args.to / folder.CARD, about)
    print(f"{args.to}: {use}")


if __name__ == "__main__":
    main()
