"""Paths of this machine in texts that leave it."""

import re

NAME = r"(?:[^\s,()=<>\"'/:]|:(?!/))++"
PATH = re.compile(
    r"(?<![\w./<>])(?<!http:)(?<!https:)(?:file:)?(?:~|\.\.?)?/+"
    rf"(?:{NAME}(?: +{NAME})*+/+)*({NAME})/*"
)
"""A path from the root, the home or the working folder; its group is the last name. Others may have
spaces: a text that goes on with a slash is taken for more of the path."""


def without_paths(text: str) -> str:
    """Return a text in which paths of this machine are their last names.

    >>> without_paths("pocket(checkpoint=/home/me/runs/sft,prompt=short), </think>, https://a/b")
    'pocket(checkpoint=sft,prompt=short), </think>, https://a/b'
    """
    return PATH.sub(r"\1", text)
