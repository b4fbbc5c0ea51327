"""Fill Jinja templates to HTML pages without scripts; every text is escaped, except `Markup`.

Lines of a `.jinja` file are joined, so that its layout adds no text to the page. Reports, sites and
the test server call `fill`.
"""

import base64
import hashlib
import html
import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from harness.leaderboards import formatting
from harness.leaderboards.images import data_uri
from harness.leaderboards.transcripts import plan_of, plan_places, table_of
from harness.version import __version__

UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\ud800-\udfff]")
"""Control characters (not tab and newline) and halves of surrogate pairs."""


def fill(name: str, *styles: str, **variables: object) -> str:
    """Return a page of this package with an inline style.

    Its content security policy allows this style and `data:` images, and nothing else.

    Args:
        name: File name of the template.
        styles: File names of the style sheets, which are joined.
        variables: Variables of the template.
    """
    style = "".join(map(_file, styles))
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    common = {"style": Markup(style), "policy": policy, "version": __version__}
    return templates().get_template(name).render({**common, **variables})


@cache
def templates() -> Environment:
    """Return the templates of this package."""
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        finalize=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"plan_of": plan_of, "plan_places": plan_places, "table_of": table_of}
    names = ("cut", "number", "signed_number", "span", "change")
    environment.filters |= {name: getattr(formatting, name) for name in names}
    environment.filters["data_uri"] = data_uri
    environment.tests["plain"] = lambda value: type(value) is str
    return environment


def escape(value: object) -> Markup:
    """Escape a value as HTML text, with U+FFFD for unprintable characters."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(UNPRINTABLE.sub("\ufffd", str(value)), quote=True))


def _file(name: str) -> str:
    """Return the text of a file of this package, without the line breaks of a `.jinja` file."""
    text = (files(__package__) / name).read_text(encoding="utf-8")
    return "".join(map(str.strip, text.splitlines())) if name.endswith(".jinja") else text


def _digest(text: str) -> str:
    """Return the hash by which a content security policy allows an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
