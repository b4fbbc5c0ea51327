"""Paths of this machine, taken out of texts before they are pushed or published."""

import re

NAME = r"(?:[^\s,()=<>\"'/:]|:(?!/))++"  # `sft` or `c:d`: one part of a path, without blanks
PATH = re.compile(
    r"(?<![\w./<>])(?<!http:)(?<!https:)(?:file:)?(?:~|\.\.?)?/+"
    rf"(?:{NAME}(?: +{NAME})*+/+)*({NAME})/*"
)
"""`/home/me/runs/sft`, `~/sft`, `../sft` or `file:/a/b`, but no address and no closing tag; group 1
is the last name. Other names may have blanks: words before a further slash belong to the path."""


def without_paths(text: str) -> str:
    """Return a text with each path of this machine replaced by its last name.

    >>> without_paths("pocket(checkpoint=/home/me/runs/sft,prompt=short), </think>, https://a/b")
    'pocket(checkpoint=sft,prompt=short), </think>, https://a/b'
    """
    return PATH.sub(r"\1", text)
