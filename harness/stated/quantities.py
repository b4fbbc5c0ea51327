"""Detection of numbers that measure another quantity than a question asks for: "The height is 3".

`harness.stated.numbers` calls `measures_another` with the response.
"""

import re

_SIZES = """
width wide breadth; height tall high; length long; depth deep; radius radii; diameter; perimeter
circumference; volume capacity; weight weigh heavy mass; speed fast velocity; age old; minimum
lowest smallest least low small; maximum highest largest greatest peak high large; mean average;
median; total sum
"""
"""Names of quantities, of which those between two semicolons are one, and the others differ."""
_NAMES = "|".join(_SIZES.replace(";", " ").split())
_ASKS = re.compile(
    rf"\b(?:what(?: is|['’]s| was) the (?:\w+ ){{0,2}}(?:{_NAMES})|how (?:{_NAMES}))\b",
    re.IGNORECASE,
)
_SAYS = re.compile(
    rf"\b(?:the|its|his|her) (?:\w+ ){{0,2}}?(?:{_NAMES})\b[^.;,\d]{{0,40}}?\b(?:is|was|of)\s"
    r"[^.;,\d]{0,20}\d"
    r"|\d\s?(?:[a-z]{1,12}\s)?(?:wide|tall|high|long|deep|heavy|old)\b",
    re.IGNORECASE,
)
"""A statement of a number whose subject or predicate is a quantity: "the height is 3"."""
_BOUNDS = re.compile(r"\bthe (?:\w+ ){0,2}(?:max(?:imum)?|min(?:imum)?|limit)\b", re.IGNORECASE)
_ASKS_BOUND = re.compile(r"(?i:max|min|limit|most|least|low|small|high|large|peak|great)")


def measures_another(text: str, question: str) -> bool:
    """Return True if a text states a number of quantities, but of none that a question asks for.

    So it is if the text says a bound ("the speed limit") and the question asks for none.

    >>> asked = "What is the width in cm?"
    >>> [measures_another(text, asked) for text in ("The height is 3 cm", "3 cm wide", "3 cm")]
    [True, False, False]
    """
    asks, says = _ASKS.search(question), _SAYS.search(text)
    if asks is None:
        return False
    if _BOUNDS.search(text) and not _ASKS_BOUND.search(question):
        return True
    asked, said = (_quantities(words[0]) if words else set[int]() for words in (asks, says))
    return bool(said) and asked.isdisjoint(said)


def _quantities(text: str) -> set[int]:
    """Return the places in `_SIZES` of the quantities that a text names."""
    words = set(re.findall(r"[a-z]+", text.casefold()))
    return {
        place
        for place, names in enumerate(_SIZES.split(";"))
        if not words.isdisjoint(names.split())
    }
