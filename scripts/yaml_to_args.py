#!/usr/bin/env python
"""Expands one section of a recipe into fairseq's argv.

    python scripts/yaml_to_args.py RECIPE [--section train|generate] [--arch ARCH] [--null]

Prints the arguments on one line, quoted for reading; with --null separated by NUL bytes, for `mapfile -d ''` in bash. A
wrong key or value is one line on stderr with file and line, and exit status 2.
"""

from __future__ import annotations

import argparse
import logging
import shlex
import sys

from recipe import SECTIONS, RecipeError, expand, load_recipe


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--section", choices=SECTIONS, default="train")
    parser.add_argument("--arch", help="architecture; default: the recipe's, or its first")
    parser.add_argument("--null", action="store_true", help="separate by NUL bytes")
    args = parser.parse_args()
    logging.disable(logging.INFO)  # of fairseq
    try:
        recipe = load_recipe(args.recipe)
        arch = args.arch or recipe.get("architecture") or next(iter(recipe.get("architectures", [])), None)
        if arch is None:
            raise RecipeError(f"{recipe.path}: names no architecture; give --arch")
        argv = expand(recipe, args.section, arch=arch)
    except RecipeError as error:
        print(f"yaml_to_args: {error}", file=sys.stderr)
        return 2
    if args.null:
        sys.stdout.write("".join(arg + "\0" for arg in argv))
    else:
        print(shlex.join(argv))
    return 0


if __name__ == "__main__":
    sys.exit(main())
