"""A hook of mkdocs: names in docstrings are marked for Sphinx, ``:class:`X```; a page shows the name alone."""

import re

ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):(?=<code)")


def on_page_content(html: str, **_: object) -> str:
    """Return a page's HTML without the names of Sphinx's roles."""
    return ROLE.sub("", html)
