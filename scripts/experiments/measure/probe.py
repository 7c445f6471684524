"""Probe the encoder of a row of Table 5 of Hao et al. 2019, on tasks in the encoder's own subwords.

    python scripts/probe.py --data FOLDER --lang en (--encoder CHECKPOINT | --arch ARCH [--flag=…]) --trees DIR
                            --work DIR --out DIR [--seed N] [--epochs N] [--cpu]

FOLDER is the data folder of the encoder (bpe/codes, bin/dict.LANG.txt). The folder of --trees has
{train,valid,test}.mrg, or NAME.train.mrg and so on (dev for valid), plain or .gz, one constituency tree a line. The
numbers go to probing.csv in the folder of --out. What was stopped continues.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from experiments.system.checkout import ROOT
from fairseq_localattn import files

SPLITS = ("train", "valid", "test")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="probe", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--lang", required=True)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--encoder", type=Path)
    kind.add_argument("--arch")
    parser.add_argument("--flag", action="append", default=[], help="of the new encoder, a word each")
    parser.add_argument("--trees", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--epochs", help="of a classifier; default: that of the analysis")
    parser.add_argument("--cpu", action="store_true")
    return parser.parse_args()


def tree_file(folder: Path | None, split: str) -> Path:
    """Return the file with the trees of a split; end the program where there is none."""
    if folder is None:
        sys.exit("probe: error: no trees: set $PROBING_TREES to a folder with {train,valid,test}.mrg, plain or .gz")
    names = ("valid", "dev") if split == "valid" else (split,)
    for pattern in (f"{prefix}{name}.mrg{ending}" for name in names for prefix in ("", "*.") for ending in ("", ".gz")):
        if found := sorted(folder.glob(pattern)):
            return found[0]
    sys.exit(f"probe: error: {folder}: no {split}.mrg and no {split}.mrg.gz")


def preparation(args: argparse.Namespace) -> list[str]:
    """Return the command that prepares the tasks in the subwords of the encoder's data."""
    words = ["bash", str(ROOT / "data-prep" / "prepare_probing.sh"), str(args.work / "data"), "--lang", args.lang]
    for split in SPLITS:
        words += [f"--{split}", str(tree_file(args.trees, split))]
    own = ["--codes", str(args.data / "bpe" / "codes"), "--dict", str(args.data / "bin" / f"dict.{args.lang}.txt")]
    return [*words, *own, "--escape"]  # the translation data have Moses' entities


def probing(args: argparse.Namespace) -> list[str]:
    """Return the command that probes; rows that are there are not made again."""
    words = [sys.executable, "-m", "fairseq_localattn.analysis.probing", str(args.work / "data" / "bin")]
    if args.encoder:
        words += ["--encoder", str(args.encoder), "--encoder-data", str(args.data / "bin")]
    else:
        words += ["--arch", args.arch, *args.flag]
    words += ["--epochs", args.epochs] if args.epochs else []
    words += ["--cpu"] if args.cpu else []
    return [*words, "--balance", "--seed", args.seed, "--out", str(args.work / "probing.csv")]


def main() -> int:
    args = parse_args()
    commands = preparation(args), probing(args)
    try:
        files.check_folder(args.work)
        files.check_file(args.out / "probing.csv")
        for command in commands:
            status = subprocess.run(command, env={**os.environ, "PYTHON": sys.executable}).returncode
            if status != 0:
                return status
        files.write_whole(args.out / "probing.csv", (args.work / "probing.csv").read_text(encoding="utf-8"))
    except OSError as error:
        sys.exit(f"probe: error: {files.described(error)}")
    return 0
