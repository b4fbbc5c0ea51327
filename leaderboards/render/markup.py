"""HTML that is escaped by construction: text is text unless `element` made it."""

import base64
import hashlib
import html
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from string import Template

from harness.version import __version__

VOID = frozenset({"br", "circle", "img", "input", "line", "meta", "rect"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(
    name: str, attributes: Mapping[str, str | None] | None = None, *children: str
) -> Markup:
    """An element; children that are not Markup, and all attributes, are escaped.

    An attribute whose value is None stands without one, as `checked` does.

    >>> element("b", {"title": 'a"b'}, "1 < 2", element("br"))
    '<b title="a&quot;b">1 &lt; 2<br></b>'
    """
    given = "".join(
        f" {key}" if value is None else f' {key}="{escape(value)}"'
        for key, value in (attributes or {}).items()
    )
    if name in VOID:
        return Markup(
            f"<{name}{given}>" if name in ("br", "img", "input", "meta") else f"<{name}{given}/>"
        )
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Children after each other, escaped unless they are Markup."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(child) for child in children)
    )


def escape(text: str) -> Markup:
    """Text as HTML: no tags, no entities, no control characters, no halves of characters."""
    shown = "".join(
        char if char in "\n\t" or not (ord(char) < 32 or 0xD800 <= ord(char) < 0xE000) else "\ufffd"
        for char in text
    )
    return Markup(html.escape(shown, quote=True))


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    attributes: Mapping[str, str | None],
    *,
    kinds: Sequence[str] = (),
) -> Markup:
    """A table in a block that scrolls; `kinds` are classes of its columns."""

    def line(name: str, cells: Sequence[str], given: Mapping[str, str | None]) -> Markup:
        classes = ({"class": kind} if kind else {} for kind in kinds or [""] * len(cells))
        made = zip(classes, cells, strict=True)
        return element("tr", {}, *(element(name, {**given, **kind}, cell) for kind, cell in made))

    top = element("thead", {}, line("th", head, {"scope": "col"}))
    body = element("tbody", {}, *(line("td", row, {}) for row in rows))
    return element("div", {"tabindex": "0", **attributes}, element("table", {}, top, body))


def page(name: str, styles: Sequence[str], texts: Mapping[str, str]) -> str:
    """Fill a page of this package; text that is not Markup is escaped.

    Its content security policy allows its one style and images that stand in it, and nothing else.
    """
    style = "".join(_file(one) for one in styles)
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    given = {"policy": policy, "version": __version__, **texts}
    escaped = {key: join(text) for key, text in given.items()}
    return Template(_file(name)).substitute(escaped, style=style)


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The hash by which a content security policy allows an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
