"""The command ``python -m fairseq_localattn``: the path for fairseq's ``--user-dir``, and the architectures."""

import argparse
import os
import sys
from importlib import metadata


def package_path() -> str:
    """Return the absolute path of the package, for ``--user-dir``; fairseq refuses a second copy of an imported one."""
    return os.path.dirname(os.path.abspath(__file__))


def architectures() -> list[tuple[str, str, str]]:
    """Return (architecture, model, paper) of each variant; the paper is the first line of its module's docstring."""
    from fairseq.models import MODEL_REGISTRY

    from .models.architectures import localattn_architectures

    def paper(model: str) -> str:
        return (sys.modules[MODEL_REGISTRY[model].__module__].__doc__ or "").split("\n")[0]

    return [(arch, model, paper(model)) for arch, model in sorted(localattn_architectures().items())]


def main(argv: list[str] | None = None) -> None:
    """Print the path on the first line, then the architectures."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_localattn",
        description="Print the path to give to fairseq's --user-dir, and the architectures that it brings.",
        epilog='example: fairseq-train DATA --user-dir "$(python -m fairseq_localattn --path)" --arch transformer_mma',
    )
    parser.add_argument("--path", action="store_true", help="print the path and nothing else")
    parser.add_argument("--version", action="version", version=metadata.version("fairseq_localattn"))
    args = parser.parse_args(argv)

    print(package_path())
    if args.path:
        return
    rows = architectures()
    print(f"\n{len(rows)} architectures (fairseq-train --arch):")
    width = max((len(arch) for arch, _, _ in rows), default=0)
    name_width = max((len(name) for _, name, _ in rows), default=0)
    for arch, name, paper in rows:
        print(f"  {arch:{width}}  {name:{name_width}}  {paper}".rstrip())


if __name__ == "__main__":
    main()
