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
    rf"(?P<groups>{_NUMBER})\s[^\W\d_]+\s(?:of|with)\s(?P<each>{_NUMBER})(?:\s(?!each)[^\W\d_]+)?"
    r"(?:\seach)?)(?=\W)"
)
"""Two numbers that are multiplied: ", arranged in 3 rows of 4", " 2 shelves with 8 books each"."""


def of_asked_label(text: str, question: str) -> str:
    """Return the part of a list of labelled numbers whose label a question names.

    All words of the label are in the question. Other texts are not changed, nor is a list of which
    no label is named, or two of which none has all words of the other.

    >>> text = '{"red cups": 2, "plates": 3}'
    >>> of_asked_label(text, "How many red cups are there?").strip()
    '"red cups": 2'
    >>> of_asked_label(text, "How many red cups are on the plates?") == text
    True
    """
    parts = [part for part in _ENDS.split(text[:4000]) if re.search(r"\d", part)][:MOST]
    labels = [_PART.fullmatch(part) for part in parts]
    asked = set(_stems(question))
    named = {
        frozenset(_stems(label["label"])): part
        for part, label in zip(parts, labels, strict=True)
        if label and asked.issuperset(_stems(label["label"]))
    }
    whole = frozenset[str]().union(*named)
    return named[whole] if len(parts) > 1 and all(labels) and whole in named else text


def without_products(text: str) -> str:
    """Return a text without two numbers whose product it states: "12 chairs, in 3 rows of 4".

    >>> without_products("12 chairs, in 3 rows of 4."), without_products("13, in 3 rows of 4.")
    ('12 chairs.', '13, in 3 rows of 4.')
    """
    product = _PRODUCT.search(text)
    if product is None:
        return text
    rest = text[: product.start()] + text[product.end() :]
    groups, each = (next(numerals(product[name])).value for name in ("groups", "each"))
    values = {number.value for number in islice(numerals(rest), 2)}
    return rest if values == {groups * each} else text


def _stems(text: str) -> list[str]:
    """Return the words of a text in small letters, without the ending of a plural."""
    return [re.sub(r"(?<=\w\w)s\Z", "", word) for word in re.findall(r"[^\W\d_]+", text.casefold())]
