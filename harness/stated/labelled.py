"""Choice of the asked value of a text that is a list of labelled numbers, and removal of products.

`harness.stated.numbers` calls both functions before it looks for the one number of a response.
"""

import re
from itertools import islice

from harness.stated.numerals import SMALL, numerals

MOST = 40
"""Most parts of a list that are read."""
_ENDS = re.compile(r"[\n{}]|[,;](?=\s|[\"'])")
_PART = re.compile(
    r"[^\w\n]*(?P<label>[^\W\d_]+(?:[ _-][^\W\d_]+){0,4})[\"'*_`\s]{0,6}[:|]"
    r"[^\w\d]{0,9}\d[^:|]{0,40}\W*"
)
"""A part of a list: `- **Cups:** 4`, `"cups": 4`, `| cups | 4 |`."""
_NUMBER = rf"(?:\d{{1,4}}|{SMALL})"
_PRODUCT = re.compile(
    r"(?i:,?\s(?:(?:arranged|laid out|divided|split|stacked|organi[sz]ed|grouped)\s)?"
    r"(?:in(?:to)?\s)?"
    rf"(?P<groups>{_NUMBER})\s(?P<group>[^\W\d_]+)\s(?:of|with)\s(?P<each>{_NUMBER})(?:\s(?!each)[^\W\d_]+)?"
    r"(?:\seach)?)(?=\W|\Z)"
)
"""Two numbers that are multiplied: ", arranged in 3 rows of 4", " 2 shelves with 8 books each"."""


_OF_SEVERAL = re.compile(
    r"(?i:\b(?:not|than|more|fewer|difference|besides|other|exclud\w+|without|and)\b|n['’]t\b)"
)
"""Words of questions on several labels, or on others than those that they name."""


def of_asked_label(text: str, question: str) -> str:
    """Return the part of a list of labelled numbers whose label a question names.

    All words of the label are in the question. Other texts are not changed, nor is a list of which
    no label is named, or two of which none has all words of the other, or with a label twice.

    >>> text = '{"red cups": 2, "plates": 3}'
    >>> of_asked_label(text, "How many red cups are there?").strip()
    '"red cups": 2'
    >>> of_asked_label(text, "How many red cups are on the plates?") == text
    True
    """
    parts = [part for part in _ENDS.split(text[:4000]) if re.search(r"\d", part)][:MOST]
    matches = filter(None, map(_PART.fullmatch, parts))
    part_of = {frozenset(_stems(match["label"])): match[0] for match in matches}
    named = {label for label in part_of if label.issubset(_stems(question))}
    whole = frozenset[str]().union(*named)
    is_list = len(parts) == len(part_of) > 1 and not _OF_SEVERAL.search(question)
    return part_of[whole] if is_list and whole in named else text


def without_products(text: str, question: str) -> str:
    """Return a text without two numbers whose product it states: "12 chairs, in 3 rows of 4".

    The text is not changed if the question names the groups, or asks for a number of each.

    >>> asked = "How many chairs are there?"
    >>> [without_products(f"{said}, in 3 rows of 4.", asked) for said in ("12 chairs", "13")]
    ['12 chairs.', '13, in 3 rows of 4.']
    """
    product, asked = _PRODUCT.search(text), _stems(question)
    if product is None or not {"each", "per", "every", *_stems(product["group"])}.isdisjoint(asked):
        return text
    rest = text[: product.start()] + text[product.end() :]
    groups, each = (next(numerals(product[name])).value for name in ("groups", "each"))
    values = {number.value for number in islice(numerals(rest), 2)}
    return rest if values == {groups * each} else text


def _stems(text: str) -> list[str]:
    """Return the words of a text in small letters, without the ending of a plural."""
    return [re.sub(r"(?<=\w\w)s\Z", "", word) for word in re.findall(r"[^\W\d_]+", text.casefold())]
