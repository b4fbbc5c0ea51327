"""Numbers in thousands, millions or billions, where a question asks for them so.

"61 million dollars" is 61 for "What is the revenue, in million dollars?". `harness.stated.numbers`
calls `in_scale` with the response before it reads the number.
"""

import math
import re
from collections.abc import Mapping

from harness.stated.numerals import numerals

SCALES: Mapping[str, float] = {"thousand": 1e3, "million": 1e6, "billion": 1e9}
_NAMES = "|".join(SCALES)
_MONEY = r"(?:(?:us|u\.s\.?|usd|eur|rmb|euros?)\b\.?\s*|[$€£¥₹]\s*)*"
_ASKED = re.compile(
    rf"\b(?:in|how many)\s+(?:the\s+|units?\s+of\s+)?{_MONEY}({_NAMES})s?\b(?!-|\s?plus)"
    rf"|\([^()\d]{{0,25}}\b({_NAMES})s?\b[^()\d]{{0,25}}\)",
    re.IGNORECASE,
)
_SCALE = re.compile(rf"[\s-]{{0,3}}\b({_NAMES})s?\b", re.IGNORECASE)


def asked_scale(question: str) -> float | None:
    """Return the one scale in which a question asks for its number; None for none or several.

    >>> asked_scale("The revenue, in million dollars?"), asked_scale("Sales (US$ billions)?")
    (1000000.0, 1000000000.0)
    >>> asked_scale("Are there 3 million people in the city?")
    """
    names = {(match[1] or match[2]).lower() for match in _ASKED.finditer(question)}
    return SCALES[names.pop()] if len(names) == 1 else None


def in_scale(text: str, scale: float) -> str:
    """Return a text with its numbers of a scale in another one; other numbers stay.

    >>> in_scale("It rose from 61 million to 1.5 billion dollars in 2020.", 1e6)
    'It rose from 61 to 1500 dollars in 2020.'
    """
    parts, place = list[str](), 0
    for number in numerals(text):
        numeral, following = text[number.start : number.end], _SCALE.match(text, number.end)
        is_spelt = "thousand" in numeral.lower()  # "two hundred thousand" is one numeral
        if not (following or is_spelt):
            continue
        if following and not is_spelt and SCALES[following[1].lower()] == scale:
            parts.append(text[place : number.end])  # which keeps dashes, and bounds
        elif math.isfinite(number.value):
            sign = re.sub(r"[\w.].*", "", numeral)  # may be the dash of a range
            value = abs(number.value) if sign else number.value
            parts += [text[place : number.start], sign, f"{value / scale:.12g}"]
        else:
            continue
        place = following.end() if following else number.end
    return "".join([*parts, text[place:]])
