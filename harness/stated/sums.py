"""Sums that a response writes out, and lists that number what they count."""

import math
import re

_PLUS = r"\s?[+×x*/÷−-]\s?"
_OPERAND = r"(?<![\w.,])\d{1,9}(?:\.\d{1,9})?"
_WHAT = r"(?:\s?[^\W\d_x]{1,12}[²³]?){0,2}"
_SUM = re.compile(
    rf"(?P<parts>{_OPERAND}{_WHAT}(?:{_PLUS}\d{{1,9}}(?:\.\d{{1,9}})?{_WHAT}){{1,9}})"
    r"\s?=(?=\s{0,3}(?P<result>\d{1,9}(?:\.\d{1,9})?)(?!\w|[.,]\d))"
)
_TERM = re.compile(r"([+×x*/÷−-]?)\s?(\d+(?:\.\d+)?)")
_MARK = re.compile(r"^\W{0,6}(?:[^\W\d_]{1,20}\s)?#?(\d{1,2})[.):]\s", re.MULTILINE)
_FIRST = re.compile(r":\s{0,9}\n\W{0,6}1[.)]\s(?=\s{0,3}[^\W\d])(?!.*\n\W{0,6}2[.)])", re.DOTALL)
"""The mark of a list's first line, of which no other is left."""
WRONG = " NaN 0/0 = "
"""What stands in the place of a sum that is not right: no number."""


def checked(text: str) -> str:
    """Return a text with the results of its sums alone; one that is not right is not a number.

    >>> checked("2 + 1 = 3 chairs"), checked("2 + 1 = 4 chairs")
    (' =  3 chairs', ' NaN 0/0 =  4 chairs')
    """
    return _SUM.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    """Return the sign of a sum's result without the sum; NaN for one that is not right."""
    total, product = 0.0, 0.0
    for sign, digits in _TERM.findall(match["parts"]):
        value = float(digits)
        if sign in ("×", "x", "*"):
            product *= value
        elif sign in ("/", "÷"):
            product = product / value if value else math.nan
        else:
            total, product = total + product, -value if sign in ("−", "-") else value
    is_right = math.isclose(total + product, float(match["result"]), rel_tol=0.01)
    return " = " if is_right else WRONG


def without_marks(text: str) -> tuple[str, int]:
    """Return a text without the numbers 1 to k of the lines of a list, and k; 0: no list."""
    if _FIRST.search(text):
        return _FIRST.sub(":\n", text), 0
    marks = [int(mark) for mark in _MARK.findall(text)]
    if len(marks) < 2 or marks != list(range(1, len(marks) + 1)):
        return text, 0
    return _MARK.sub("", text), len(marks)
