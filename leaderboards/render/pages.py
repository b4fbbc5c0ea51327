"""Pages from Jinja's templates, in which text is text: all is escaped but what a template made.

Lines of a `.jinja` file are joined, so that its layout adds no text to the page.
"""

import base64
import hashlib
import html
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from harness.leaderboards import formatting
from harness.leaderboards.images import data_uri
from harness.leaderboards.transcripts import plan_of, plan_places, table_of
from harness.version import __version__


def fill(name: str, *styles: str, **given: object) -> str:
    """Fill a page of this package, with the content of files of `styles` in it.

    Its content security policy allows its one style and images that stand in it, and nothing else.
    """
    style = "".join(map(_file, styles))
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    known = {"style": Markup(style), "policy": policy, "version": __version__}
    return templates().get_template(name).render({**known, **given})


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
    """Text as HTML: no tags, no entities, no control characters, no halves of characters."""
    if isinstance(value, Markup):
        return value
    shown = "".join(
        char if char in "\n\t" or not (ord(char) < 32 or 0xD800 <= ord(char) < 0xE000) else "\ufffd"
        for char in str(value)
    )
    return Markup(html.escape(shown, quote=True))


def _file(name: str) -> str:
    text = (files(__package__) / name).read_text(encoding="utf-8")
    return "".join(map(str.strip, text.splitlines())) if name.endswith(".jinja") else text


def _digest(text: str) -> str:
    """The hash by which a content security policy allows an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
