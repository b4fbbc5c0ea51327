"""Removal of markup from a response before its numbers are read: tags, LaTeX, confidences.

`plain` gives the text after the last correction in which "1{,}500" is "1,500".
"""

import re
from html import unescape

from harness.stated.corrections import after_correction
from harness.stated.languages import unmarked

BOX = "<|begin_of_box|>"
"""Mark before the answer of GLM's networks, which is kept."""
_SPECIAL = re.compile(r"<\|(?!begin_of_box\|>)[^<>\n]{1,60}\|>|</s>")  # <|im_end|>
_END_TOKENS = re.compile(
    r"\s*(?:(?:<\|(?!begin_of_box\|>)[^<>\n]{1,60}\|>|</s>|<eos>|<end_of_turn>)\s*)+\Z"
)
_TAG = re.compile(r"<(/?)(su[bp])?[a-zA-Z][^<>\n]{0,60}>|<su([bp])>", re.IGNORECASE)
_LISTS = re.compile(  # [1,2] or (1,2)
    r"\[[^\[\]\n]{0,200}\]|\([-+−.,\s\d]{0,200}\)|(?<![\w^}])\{[-+−.,\s\d]{0,200}\}"
)
_BETWEEN = re.compile(r"(?<=\d),(?=[\d.])")  # in a list, where a comma parts numbers
_SURE = r"(?:confiden(?:ce|t)|certain(?:ty)?|sure|probability|likelihood)"
_HOW_SURE = re.compile(  # "(confidence: 90%)", "I'm 90% sure"
    rf"(?i:[,;(]?\s?\b(?:with |at |my |an? |the )*{_SURE}(?: level| score)?\"?\s?(?:is|of|[:=])?"
    rf"\s?\d[\d.]{{0,9}}\s?%?(?![\w.])\)?|[,;(]?\s?(?:\bi['’]?(?: a)?m )?\b\d[\d.]{{0,9}}\s?%"
    rf"\s{_SURE}\b(?: that)?\)?)"
)

_FORMULA_ENDS = re.compile(r"(?:[a-z]|[\d})]\s?)\${1,2}(?=[\s.,;:)]|\Z)|\\\w")
_NUMBER_ENDS = re.compile(r"\d[.,]?\s*\Z")


def is_cut_off(response: str) -> bool:
    r"""Return True if a response ends with a number of a formula that is not closed.

    >>> [is_cut_off(text) for text in ("$x$ is $0.0", r"\boxed{12", "It is $5", r"$x$ is \$5")]
    [True, True, False, False]
    """
    text = _SPECIAL.sub(" ", response).replace("\\$", "")
    if not _NUMBER_ENDS.search(text):
        return False
    opens = (
        text.count("$") % 2 and _FORMULA_ENDS.search(text),
        text.count("\\(") > text.count("\\)"),
        text.count("\\[") > text.count("\\]"),
        "}" not in text.rpartition("\\boxed")[2] if "\\boxed" in text else False,
    )
    return any(opens)


def plain(response: str) -> str:
    """Return the text after the last correction, without markup that can join numbers.

    >>> plain("3 <b>m</b>. Wait: <b>1{,}500</b> m (confidence: 90%)").split()
    [':', '1,500', 'm']
    """
    text = unmarked(unescape(_SPECIAL.sub(" ", after_correction(response))))
    text = _TAG.sub(lambda tag: {"sup": "^", "sub": "_"}.get(tag[0][1:4].lower(), " "), text)
    text = _HOW_SURE.sub(" ", text)
    text = _LISTS.sub(lambda listed: _BETWEEN.sub(", ", listed[0]), text)
    for mark, readable in (
        ("{,}", ","),
        ("．", "."),
        ("\\,", "\u202f"),
        ("\\times", "×"),
        ("\\cdot", "×"),
        ("\\approx", "≈"),
        ("\\text", " "),
        ("\\mathrm", " "),
        ("\\%", "%"),
        ("**", " ") if "10**" not in text else ("**", "**"),
    ):
        text = text.replace(mark, readable)
    return text


def without_end_tokens(response: str) -> str:
    """Return a response without the special tokens at its end, which a server did not remove.

    >>> without_end_tokens("2011.<|im_end|> <|endoftext|>"), without_end_tokens("a </s> b")
    ('2011.', 'a </s> b')
    """
    return _END_TOKENS.sub("", response)
