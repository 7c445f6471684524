"""What the tests of preparations with Japanese or Chinese share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.prep import DATA_PREP, call

NOWHERE = {"ASPEC_DIR": "", "NIST_DIR": "", "WMT17_ZH_EN_DIR": "", "WMT17_ZH_EN_URL": ""}  # not the caller's


def prepare(corpus: str, out: Path, *options: object) -> subprocess.CompletedProcess:
    return call("bash", DATA_PREP / f"prepare_{corpus}.sh", out, "--workers", "1", *options, **NOWHERE)


def mini(name: str, folder: Path) -> Path:
    done = call(sys.executable, DATA_PREP / "mini_corpus.py", name, folder)
    assert done.returncode == 0, done.stderr
    return folder


def prepared(corpus: str, out: Path, *options: object) -> Path:
    done = prepare(corpus, out, *options)
    assert done.returncode == 0, done.stderr
    (out / "said.txt").write_text(done.stdout)
    return out


def assert_reads(out: Path, source: str, target: str, splits: dict[str, dict[str, list[str]]], bpe: str) -> None:
    """fairseq's own data set has, with its subwords joined, these lines: split → language → lines."""
    from fairseq.data import Dictionary
    from fairseq.data.data_utils import post_process
    from fairseq.tasks.translation import load_langpair_dataset

    words = {lang: Dictionary.load(str(out / f"bin/dict.{lang}.txt")) for lang in (source, target)}
    for split, texts in splits.items():
        data = load_langpair_dataset(
            str(out / "bin"), split, source, words[source], target, words[target], combine=False, dataset_impl=None,
            upsample_primary=1, left_pad_source=True, left_pad_target=False, max_source_positions=1024,
            max_target_positions=1024,
        )  # fmt: skip
        for side, lang in (("source", source), ("target", target)):
            found = [words[lang].string(data[index][side]) for index in range(len(data))]
            assert [post_process(line, bpe) for line in found] == texts[lang], (split, lang)
