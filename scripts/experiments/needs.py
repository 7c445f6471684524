"""Imported first by the scripts that a user starts: stops in one line where the interpreter lacks what they need."""

import importlib.util
import sys

MODULES = ("torch", "fairseq", "scipy", "yaml", "sacrebleu", "sacremoses", "subword_nmt")

_missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
if sys.version_info < (3, 11):  # noqa: UP036  (an older interpreter may well be tried)
    _missing.insert(0, "Python 3.11")
if _missing:
    _script = sys.argv[0].replace("\\", "/").rsplit("/", 1)[-1]
    sys.stderr.write(
        f"{_script.removesuffix('.py')}: error: {sys.executable} lacks {', '.join(_missing)}: "
        f"run scripts/setup.sh, then .venv/bin/python scripts/{_script} ...\n"
    )
    sys.exit(2)
