"""The command line of a preparation: its options, their checks, and errors of one line."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from corpora.arguments import at_least
from corpora.errors import UsageError
from corpora.text import expansion
from fairseq_localattn.parallel import cores


class Given(argparse.Namespace):
    """What a command line says; every preparation has these, and options of its own.

    local: folder of --local, or None; mirror: address to download from instead, or "".
    """

    name: str
    out: Path
    workers: int
    local: Path | None
    mirror: str
    no_checksums: bool

    def say(self, text: str) -> None:
        """Print a line."""
        print(f"{self.name}: {text}", flush=True)

    def need_local(self, what: str) -> None:
        """Raise UsageError where --local names no folder, unless its text has been read."""
        self.need_folder(self.local, f"give the folder with {what} with --local DIR")

    def need_folder(self, folder: Path | None, advice: str) -> None:
        """Raise UsageError where a folder is given and is not there, unless the text has been read."""
        if folder and not folder.is_dir() and not ((self.out / "raw").is_dir() or (self.out / "tok").is_dir()):
            raise UsageError(f"no folder {folder}: {advice}")

    def origin(self) -> str:
        """Return where the text comes from, for the options of OUT."""
        return str(self.local.resolve()) if self.local else "download"

    def checked(self) -> str:
        """Return whether checksums are compared, and where the text comes from, for the options of OUT."""
        return f"checksums={int(not self.no_checksums)} local={self.origin()}"

    def settings(self, *names: str) -> str:
        """Return the values of options, for the options of OUT."""
        values = {name: getattr(self, name.replace("-", "_")) for name in names}
        return " ".join(f"{name}={int(x) if isinstance(x, bool) else x}" for name, x in values.items())


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ").replace(": expected one argument", " needs a value")
        if unknown := re.match(r"unrecognized arguments: (\S+)", message):
            if unknown[1].startswith("-"):
                raise UsageError(f"unknown option {unknown[1]} (see --help)")
            raise UsageError(f"one output folder, please: what is '{unknown[1]}'?")
        if "arguments are required" in message:
            raise UsageError("no output folder given (see --help)")
        raise UsageError(re.sub(r"^(--\S+): ", r"\1 ", message))


class Options:
    """The options of a preparation; `about` ends its --help."""

    def __init__(self, name: str, about: str | None) -> None:
        self._parser = _Parser(f"{name}.sh", f"{name}.sh OUT [options]", epilog=about, allow_abbrev=False)
        self._name = name
        self._parser.set_defaults(local=None, mirror="", no_checksums=False)
        self._parser.add_argument("out", metavar="OUT", type=Path, help="folder to write to; complete steps in it stay")

    def add(
        self, name: str, metavar: str, help: str, default: Any = None, check: Callable[[str], Any] | Sequence[str] = str
    ) -> None:
        """Add an option with a value; check: what it is read by, or the values that there are."""
        about = help if default in (None, "") else f"{help} (%(default)s)"
        how: dict[str, Any] = {"type": check} if callable(check) else {"choices": check}
        self._parser.add_argument(f"--{name}", metavar=metavar, default=default, help=about, **how)

    def number(self, name: str, default: int | None, help: str) -> None:
        """Add an option with a number from 1."""
        self.add(name, "N", help, default, at_least(1))

    def ratio(self, default: str | None, help: str) -> None:
        """Add --ratio X."""
        self.add("ratio", "X", help, default, at_least(1, decimal=True))

    def flag(self, name: str, help: str) -> None:
        """Add an option without a value."""
        self._parser.add_argument(f"--{name}", action="store_true", help=help)

    def local(self, variable: str, help: str) -> None:
        """Add --local DIR, which $VARIABLE_DIR gives as well."""
        self.add("local", "DIR", f"{help} (${variable}_DIR)", check=Path)
        self._parser.set_defaults(local=Path(given) if (given := os.environ.get(f"{variable}_DIR")) else None)

    def corpus(self, variable: str, help: str, mirror: str = "") -> None:
        """Add --local DIR and --no-checksums, for a corpus that is downloaded otherwise.

        mirror: beginning of the variable …_URL where it is another one than that of …_DIR.
        """
        self.local(variable, f"{help}; without: download")
        self.flag("no-checksums", "accept other files than the official ones")
        self._parser.set_defaults(mirror=os.environ.get(f"{mirror or variable}_URL", ""))

    def min_correlation(self) -> None:
        """Add --min-correlation X."""
        about = "of the lengths of the two sides, by blocks of lines, in text that no checksum covers; -1: not checked"
        self.add("min-correlation", "X", about, "0.3", at_least(-1, decimal=True))

    def trees(self, languages: str, default: str = "") -> None:
        """Add --trees, --parser and --tree-files; default: that of --tree-files, for its help."""
        self.add("trees", "LANG", f"write the phrases of {languages} to OUT/bin; can be added later", "")
        models = "stanza's models, such as train_parser.py makes (default: those that stanza.download has installed)"
        self.add("parser", "DIR", models, check=Path)
        files = "no parser: take {train,valid,test,…}.LANG.tree, plain or .gz, one bracketing a line of OUT/tok"
        self.add("tree-files", "DIR", f"{files} {default}".strip(), check=Path)

    def read(self, words: Sequence[object]) -> Given:
        """Read a command line; raises UsageError."""
        self.number("workers", cores(), "processes")
        self.number("max-expansion", None, "an archive or .gz file that you trust may unpack to N times its size")
        given = self._parser.parse_args([str(word) for word in words], Given(name=self._name))
        if "," in str(given.out):
            raise UsageError(
                f"{given.out}: no comma in the output folder, please: fairseq-preprocess takes it for the end of a name"
            )
        if given.max_expansion:
            os.environ[expansion.VARIABLE] = str(given.max_expansion)
        return given
