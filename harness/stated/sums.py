"""Written sums ("2 + 1 = 3") and numbered lists in a response, for readers of its number.

`checked` replaces each sum by its result, and marks wrong ones; `without_marks` removes the numbers
of a list's lines, which are not values.
"""

import math
import re

_PLUS = r"(?:\s?[+×x*/÷−-]\s?|\splus\s)"
_OPERAND = r"(?<![\w.,])\d{1,9}(?:\.\d{1,9})?"
_WHAT = r"(?:\s?[^\W\d_x]{1,12}[²³]?){0,2}"
_SUM = re.compile(  # "2 red + 1 blue =", before "3"
    rf"(?P<parts>{_OPERAND}{_WHAT}(?:{_PLUS}\d{{1,9}}(?:\.\d{{1,9}})?{_WHAT}){{1,9}})"
    r"(?:\s?=|\s(?:equals|gives|makes|is)"
    r"|,\s(?:so|giving|which (?:is|gives|makes|equals))(?: about| approximately"
    r"| roughly)?)(?=\s{0,3}(?P<result>\d{1,9}(?:\.\d{1,9})?)(?!\w|[.,]\d))"
)
_TERM = re.compile(r"([+×x*/÷−-]?)\s?(\d+(?:\.\d+)?)")  # "+ 1"
_MARK = re.compile(r"^\W{0,6}(?:[^\W\d_]{1,20}\s)?#?(\d{1,2})[.):]\s", re.MULTILINE)  # "Chair 1: "
_FIRST = re.compile(r":\s{0,9}\n\W{0,6}1[.)]\s(?=\s{0,3}[^\W\d])(?!.*\n\W{0,6}2[.)])", re.DOTALL)
"""The mark of a list's first line, if the list has no second line."""
WRONG = " NaN 0/0 = "
"""Text in place of a wrong sum; `numerals` reads it as NaN."""


def checked(text: str) -> str:
    """Return a text with only the results of its sums, and `WRONG` before a wrong result.

    >>> checked("2 + 1 = 3 chairs"), checked("2 + 1 = 4 chairs")
    (' =  3 chairs', ' NaN 0/0 =  4 chairs')
    """
    return _SUM.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    """Return " = " for a sum whose result is right to 1 %, else `WRONG`."""
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
    """Return a text without the numbers 1 to k of a list's lines, and k; 0: there is no list."""
    if _FIRST.search(text):
        return _FIRST.sub(":\n", text), 0
    marks = [int(mark) for mark in _MARK.findall(text)]
    if len(marks) < 2 or marks != list(range(1, len(marks) + 1)):
        return text, 0
    return _MARK.sub("", text), len(marks)
