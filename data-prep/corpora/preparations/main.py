"""Runs a preparation.

    python -m corpora.preparations.main prepare_toy OUT [options]

data-prep/run_python.sh calls it.
"""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence

from corpora.errors import UsageError, as_status
from corpora.preparations.options import Options
from corpora.preparations.steps import Preparation

# Name of the script → module and function; a module is imported when it is asked for.
PREPARATIONS = {
    "prepare_toy": "small.toy", "prepare_multi30k": "small.multi30k",
    "prepare_iwslt14": "bitext.iwslt14", "prepare_wmt14_en_de": "bitext.wmt14_en_de",
    "prepare_wmt14_en_fr": "bitext.wmt14_en_fr", "prepare_parallel": "parallel.parallel",
    "prepare_wmt17_zh_en": "asian.wmt17_zh_en", "prepare_aspec": "asian.aspec", "prepare_nist": "asian.nist",
    "prepare_cnndm": "summaries.cnndm", "prepare_gigaword": "summaries.gigaword",
    "prepare_sst": "labelled.sst", "prepare_imdb": "labelled.imdb", "prepare_sva": "labelled.sva",
    "prepare_1bw": "labelled.one_billion", "prepare_lm": "labelled.lm",
    "prepare_probing": "trees.probing", "parse_text": "trees.parse_text",
}  # fmt: skip


def planned(name: str, words: Sequence[object]) -> Preparation:
    """Return a preparation for the words of its command line; raises UsageError."""
    module, function = PREPARATIONS[name].split(".")
    make = getattr(importlib.import_module(f"corpora.preparations.{module}"), function)
    return make(Options(name, make.__doc__), words)


def main(name: str, words: Sequence[object]) -> int:
    """Run a preparation; return the exit status."""
    try:
        return as_status(lambda: planned(name, words).run())()
    except (UsageError, ModuleNotFoundError) as error:
        advice = " is missing: run scripts/setup.sh first"
        text = f"{error.name}{advice}" if isinstance(error, ModuleNotFoundError) else error
        print(f"{name}: error: {text}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends what the preparation has started
    sys.exit(main(sys.argv[1], sys.argv[2:]))
