"""Expands one section of a recipe into fairseq's argv.

    python scripts/yaml_to_args.py RECIPE [--section train|generate] [--arch ARCH]

Prints the arguments on one line, quoted for a shell. A wrong key or value is one line on stderr with file and line, and
exit status 2.
"""

from __future__ import annotations

import argparse
import logging
import shlex
import sys

from experiments.recipes.recipe import SECTIONS, RecipeError, expand, load_recipe


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe")
    parser.add_argument("--section", choices=SECTIONS, default="train")
    parser.add_argument("--arch", help="architecture; default: the recipe's first")
    args = parser.parse_args()
    logging.disable(logging.INFO)  # of fairseq
    try:
        recipe = load_recipe(args.recipe)
        arch = args.arch or next(iter(recipe.get("architectures", [])), None)
        if arch is None:
            raise RecipeError(f"{recipe.path}: names no architecture; give --arch")
        argv = expand(recipe, args.section, arch=arch)
    except RecipeError as error:
        print(f"yaml_to_args: {error}", file=sys.stderr)
        return 2
    print(shlex.join(argv))
    return 0
