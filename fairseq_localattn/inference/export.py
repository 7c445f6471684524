"""Export a trained model as a folder of data, which is translated without fairseq and without its checkpoint.

python -m fairseq_localattn export --path CHECKPOINT --to FOLDER
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ..files import write_whole
from . import folder
from .load import Trained, load
from .text import SUBWORDS, TOKENIZERS, text_of

TEXT = ("tokenizer", "bpe", "bpe_codes", "sentencepiece_model")


def card(trained: Trained, license: str | None) -> str:
    """Return the model card, in Markdown."""
    sizes, options = trained.model.sizes, trained.options
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    pair = " → ".join(str(options.get(f"{side}_lang") or "?") for side in ("source", "target"))
    texts = sizes.texts or {"all sites": "san"}
    lines = [
        *("---", f"license: {license or 'unknown'}", "tags: [translation]", "---", ""),
        *(f"# Translation {pair}", ""),
        *("| | |", "|---|---|"),
        f"| parameters | {parameters:,} |",
        *(f"| attention, {site} | `{text}` |" for site, text in texts.items()),
        f"| layers | {sizes.encoder.layers} and {sizes.decoder.layers}, {sizes.encoder.embed_dim} wide |",
        f"| words | {len(trained.source):,} and {len(trained.target):,} |",
        f"| text | tokeniser {options.get('tokenizer') or 'none'}, subwords {options.get('bpe') or 'none'} |",
        f"| longest sentence | {sizes.max_source_positions} tokens |",
        f"| training data | {Path(str(options.get('data') or 'not stated')).name} |",
        *("", "Intended use: translation of sentences like those of the training data. Other text may be"),
        "translated wrongly without a sign of it.",
        *("", "```bash", "python -m fairseq_localattn translate --path . < raw > translated", "```", ""),
    ]
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    found = argparse.ArgumentParser(prog="python -m fairseq_localattn export", description=__doc__.split("\n")[0])
    add = found.add_argument
    add("--path", required=True, metavar="CHECKPOINT", help="of fairseq-train")
    add("--to", required=True, type=Path, metavar="FOLDER", help="a new folder, or one without a model")
    add("--data", metavar="DIR", help="folder of dict.XX.txt (default: the checkpoint's, then the training's)")
    add("--tokenizer", choices=TOKENIZERS, help="default: as the checkpoint says")
    add("--bpe", choices=SUBWORDS, help="default: as the checkpoint says")
    add("--bpe-codes", metavar="FILE", help="of --bpe subword_nmt; it is copied")
    add("--sentencepiece-model", metavar="FILE", help="of --bpe sentencepiece; it is copied")
    add("--license", metavar="NAME", help="of the weights, for the model card")
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Write the folder."""
    args = parser().parse_args(argv)
    trained = load(args.path, args.data)
    given = {name: value for name in TEXT if (value := getattr(args, name)) is not None}
    options = {**trained.options, **given}
    text_of(options)  # what cannot be read is told of now
    trained = Trained(trained.model, trained.source, trained.target, options)
    dictionaries = {"source": trained.source, "target": trained.target}
    folder.save(args.to, trained.model.sizes, trained.model.state_dict(), dictionaries, options)
    write_whole(args.to / folder.CARD, card(trained, args.license))
    print(f"{args.to}: python -m fairseq_localattn translate --path {args.to} < raw > translated")


if __name__ == "__main__":
    main()
