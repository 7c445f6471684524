"""The command ``python -m fairseq_localattn``: the path for fairseq's ``--user-dir``, and the architectures."""

import argparse
import os
import re
import signal
import sys
import textwrap
from importlib import import_module
from itertools import groupby

from . import __version__, register
from .errors import UsageError
from .files import described

COMMANDS = {
    "describe": "describe the attention of an architecture or a checkpoint by texts",
    "draw": "draw the masks of a text",
    "translate": "translate raw text without fairseq",
    "export": "write a model as a folder for translate",
}
WITHOUT_FAIRSEQ = dict.fromkeys(("translate", "export"), "inference")  # command → folder; of the others, analysis
COLUMNS = 96  # of the list
PLAIN = "The plain Transformer, baseline of the others, and LightConv, in the sizes of this package"
SIZE = re.compile(r"_(tiny|small|medium|iwslt|wmt|wat17|summarization).*$")  # the end of an architecture's name


def package_path() -> str:
    """Return the absolute path of the package, for ``--user-dir``; fairseq refuses a second copy of an imported one."""
    return os.path.dirname(os.path.abspath(__file__))


def architectures() -> list[tuple[str, str, str]]:
    """Return (architecture, model, paper) of each variant, and of the plain models in this package's sizes.

    The paper is the first line of the docstring of the variant's module.
    """
    register()
    from fairseq.models import MODEL_REGISTRY

    from .models.architectures import localattn_architectures, plain_architectures

    def paper(model: str) -> str:
        return (sys.modules[MODEL_REGISTRY[model].__module__].__doc__ or "").split("\n")[0]

    variants = [(arch, model, paper(model)) for arch, model in sorted(localattn_architectures().items())]
    return [*variants, *((arch, model, PLAIN) for arch, model in sorted(plain_architectures().items()))]


def table(rows: list[tuple[str, str, str]]) -> list[str]:
    """Return the lines of the list: each paper, and below it its architectures, a line a model with its sizes."""
    lines = [
        "",
        f"{len(rows)} architectures (fairseq-train --arch): a name, alone or with one of its endings",
    ]
    for paper, group in groupby(sorted(rows, key=lambda row: (row[2], row[0])), key=lambda row: row[2]):
        lines += ["", *textwrap.wrap(paper, COLUMNS)]
        endings: dict[str, list[str]] = {}
        names = [arch for arch, _, _ in group]
        for arch in names:
            stem = SIZE.sub("", arch)
            stem = stem if stem in names else arch
            endings.setdefault(stem, []).append(arch[len(stem) :])
        for stem, sizes in endings.items():
            text = f"{stem} {' '.join(filter(None, sizes))}"
            lines += textwrap.wrap(text, COLUMNS, initial_indent="  ", subsequent_indent=" " * 6)
    return lines


def main(argv: list[str] | None = None) -> None:
    """Run a command, or print the path on the first line and then the architectures."""
    given = sys.argv[1:] if argv is None else argv
    try:
        run(given)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as `head`, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if given and given[0] in COMMANDS:  # which may not have written its files yet
            raise SystemExit(128 + signal.SIGPIPE) from None
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise UsageError(described(error)) from None
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python does not fail again at exit
        raise UsageError(f"standard input or output: {error.strerror}") from None


def run(given: list[str]) -> None:
    """Run the command that the arguments name, or without one the listing."""
    if given and given[0] in COMMANDS:
        folder = WITHOUT_FAIRSEQ.get(given[0])
        if folder is None:
            register()
        import_module(f".{folder or 'analysis'}.{given[0]}", __package__).main(given[1:])
        return
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn",
        description="Print the path to give to fairseq's --user-dir, and the architectures that it brings; or, as "
        f"`python -m fairseq_localattn COMMAND`: {'; '.join(f'{name}, to {what}' for name, what in COMMANDS.items())}.",
        epilog='example: fairseq-train DATA --user-dir "$(python -m fairseq_localattn --path)" --arch transformer_mma',
    )
    parser.add_argument("--path", action="store_true", help="print the path and nothing else")
    parser.add_argument("--version", action="version", version=__version__)
    args = parser.parse_args(given)
    print(package_path())
    if not args.path:
        print("\n".join(table(architectures())))


if __name__ == "__main__":
    main()
