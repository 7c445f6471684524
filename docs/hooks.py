"""Hooks of mkdocs: tables of flags from the options' dataclasses, and names of docstrings without Sphinx's roles.

A line ``<!-- flags: variants.mma.MMAOptions -->`` in a page names a dataclass below ``fairseq_localattn``, and becomes
the table of its flags: name, default, help text.
"""

import re
from argparse import ArgumentParser
from html import escape
from importlib import import_module
from typing import Any

from mkdocs.exceptions import PluginError

FLAGS = re.compile(r"^<!-- flags: ([\w.]+) -->$", re.M)
ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):(?=<code)")


def options_of(name: str) -> Any:
    """Return the dataclass that a page names. Raises ImportError or AttributeError for an unknown one."""
    module, _, options = name.rpartition(".")
    return getattr(import_module(f"fairseq_localattn.{module}"), options)


def flags_table(name: str) -> str:
    """Return the HTML table of the flags of a dataclass. Raises PluginError where the package is not installed."""
    try:
        from fairseq_localattn.options import add_flags

        options = options_of(name)
    except ModuleNotFoundError as error:
        raise PluginError(f"{error}; the tables of flags need the package: pip install -e '.[docs]'") from None
    parser, defaults = ArgumentParser(add_help=False), options()
    add_flags(parser, options)
    rows = ['<tr><th>flag</th><th style="min-width: 5.5rem">default</th><th>meaning</th></tr>']
    for action in parser._actions:
        value = getattr(defaults, action.dest)
        shown = {False: "off", True: "on"}[value] if isinstance(value, bool) else value
        default = f"<code>{escape(str(shown))}</code>" if shown != "" else ""
        meaning = re.sub(r"--[a-z][\w-]*", r"<code>\g<0></code>", escape(action.help or ""))
        rows.append(f"<tr><td><code>{action.option_strings[0]}</code></td><td>{default}</td><td>{meaning}</td></tr>")
    return "\n".join(["<table>", *rows, "</table>"])


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return a page's Markdown with tables of flags."""
    return FLAGS.sub(lambda match: flags_table(match[1]), markdown)


def on_page_content(html: str, **_: object) -> str:
    """Return a page's HTML without the names of Sphinx's roles."""
    return ROLE.sub("", html)
