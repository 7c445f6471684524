"""Trains stanza's tagger and constituency parser on bracketings, without network or Java, for data-prep/parse.py.

Files of bracketings are plain or .gz; function labels and empty elements are removed. --text is tokenised text without
trees, such as the text to be parsed, for the word vectors in addition to the treebank's. Written are DIR/resources.json
and DIR/LANG/{pretrain,pos,constituency}/trained.pt, which stanza.Pipeline(LANG, dir=DIR, download_method=None) loads,
and DIR/scores.json: the accuracy of the tags and F1 of the labelled brackets (as evalb counts by COLLINS.prm) that this
pipeline has on the words of --dev and --test. A killed run is continued, from the last epoch of the parser; the logs
are in DIR/train.

The models of this repository's experiments on Multi30k are trained on GUM, whose trees are in the style of the Penn
Treebank, with vectors of the captions as well (8 minutes of one core for the parser, 4 for the tagger):

    python data-prep/train_parser.py --train gum.train.mrg.gz --dev gum.dev.mrg.gz --test gum.test.mrg.gz \\
        --max-words 30 --text tok/train.en --out DIR

gives 91.18 % of the tags and F1 73.80 on dev, 91.20 % and 74.02 on test (scored from the words alone).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

from corpora.arguments import at_least
from corpora.errors import DataError, as_status
from corpora.text.lines import write_lines

# By size: dimension of the word vectors; arguments of stanza's tagger and of its parser.
SIZES: dict[str, tuple[int, str, str]] = {
    "tiny": (
        16,
        "--hidden_dim 32 --char_hidden_dim 16 --char_emb_dim 16 --deep_biaff_hidden_dim 32 --num_layers 1"
        " --composite_deep_biaff_hidden_dim 16 --word_emb_dim 16 --transformed_dim 16 --tag_emb_dim 8 --batch_size 32"
        " --dropout 0.1 --word_dropout 0.1 --lr 0.01",
        "--hidden_size 48 --delta_embedding_dim 16 --num_lstm_layers 1 --epochs 8 --train_batch_size 8"
        " --word_dropout 0.05 --predict_dropout 0.05 --lstm_input_dropout 0.05",
    ),
    "small": (
        100,
        "--hidden_dim 128 --char_hidden_dim 64 --char_emb_dim 32 --deep_biaff_hidden_dim 64 --num_layers 1"
        " --composite_deep_biaff_hidden_dim 32 --word_emb_dim 50 --transformed_dim 64 --tag_emb_dim 16 --batch_size 64",
        "--hidden_size 128 --delta_embedding_dim 64 --num_lstm_layers 1 --epochs 3",
    ),
}
STEPS = {"tiny": 150, "small": 800}


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return everything that the models depend on; raises DataError where a file cannot be read."""
    files = {}
    for path in [args.train, args.dev, *args.text]:
        try:
            name = str(path) if path.name in files else path.name
            files[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    names = ("lang", "size", "epochs", "steps", "max_words", "seed")
    return {**{name: getattr(args, name) for name in names}, "models": SIZES[args.size], "files": files}


def _open(out: Path, settings: dict[str, Any]) -> None:
    """Create the folder, or check that it was begun with the same settings."""
    path, text = out / "train" / "settings.json", json.dumps(settings, indent=1)
    if path.exists():
        if path.read_bytes().rstrip(b"\n") != text.encode():
            raise DataError(
                f"{out} was begun with other files or options (see {path}); give another --out, or remove it"
            )
        return
    if out.exists() and any(out.iterdir()) and not (out / "train").is_dir():
        raise DataError(f"{out} is not empty and was not made by this script; give another --out")
    write_lines(path, [text])


@as_status
def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", type=Path, required=True, help="bracketings to learn from")
    parser.add_argument("--dev", type=Path, required=True, help="bracketings for choosing the best model")
    parser.add_argument("--test", type=Path, help="bracketings to score at the end, with those of --dev")
    parser.add_argument("--out", type=Path, required=True, help="folder of models, for --models of data-prep/parse.py")
    parser.add_argument("--lang", default="en", help="code of the language (default: %(default)s)")
    parser.add_argument("--size", choices=sorted(SIZES), default="small", help="of both models (default: %(default)s)")
    parser.add_argument("--text", type=Path, nargs="+", default=[], help="tokenised text for the word vectors")
    parser.add_argument("--epochs", type=at_least(1), help="of the parser (default: by --size)")
    parser.add_argument("--steps", type=at_least(1), help="of the tagger (default: by --size)")
    parser.add_argument("--max-words", type=at_least(1), help="leave longer sentences out of --train (default: none)")
    parser.add_argument("--seed", type=at_least(1), default=1)
    args = parser.parse_args()
    if importlib.util.find_spec("stanza") is None:
        raise DataError("stanza is missing: pip install 'fairseq_localattn[parse]'")
    if args.test and not args.test.is_file():
        raise DataError(f"{args.test}: cannot be read: no such file")
    from corpora.trees.parser_training import Training

    _open(args.out, _settings(args))
    dimension, of_tagger, of_parser = SIZES[args.size]
    training = Training(args.out, args.lang, args.seed)
    training.read(args.train, args.dev, args.max_words)
    training.vectors(args.text, dimension)
    training.tagger(of_tagger.split(), args.steps or STEPS[args.size])
    training.parser([*of_parser.split(), *(["--epochs", str(args.epochs)] if args.epochs else [])])
    training.install()
    training.score({"dev": args.dev, **({"test": args.test} if args.test else {})})
