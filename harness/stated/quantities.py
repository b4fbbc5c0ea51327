"""Detection of numbers that measure another quantity than a question asks for: "The height is 3".

`harness.stated.numbers` calls `measures_another` with the response.
"""

import re

_SIZES = """
width wide breadth; height tall high; length long distance far apart away gap path; depth deep;
radius radii; diameter; perimeter circumference; area; volume capacity; weight weigh heavy mass
load; speed fast velocity; age old
"""
_SHARES = """
minimum lowest smallest least min; maximum highest largest greatest most peak max; mean average;
median; mode; range; total sum altogether all; each per apiece
"""
"""Names of quantities, of which those between two semicolons are one, and the others differ."""
_BOUNDS = re.compile(r"\bthe (?:\w+ ){0,2}(?:max(?:imum)?|min(?:imum)?|limit)\b", re.IGNORECASE)


def _patterns(table: str) -> tuple[re.Pattern[str], ...]:
    """Return a pattern for the names of each quantity of a table."""
    return tuple(
        re.compile(rf"\b(?:{'|'.join(names.split())})s?\b", re.IGNORECASE)
        for names in table.split(";")
    )


_TABLES = (_patterns(_SIZES), _patterns(_SHARES))


def measures_another(text: str, question: str) -> bool:
    """Return True if a text names quantities of a kind, but none of those that a question names.

    So it is if the text says a bound ("the speed limit") and the question asks for none.

    >>> asked = "What is the width in cm?"
    >>> [measures_another(text, asked) for text in ("The height is 3 cm", "3 cm wide", "3 cm")]
    [True, False, False]
    """
    asks_bound = re.search(r"(?i:max|min|limit|most|least)", question)
    if question and _BOUNDS.search(text) and not asks_bound:
        return True
    for table in _TABLES:
        asked, said = (
            {place for place, names in enumerate(table) if names.search(words)}
            for words in (question, text)
        )
        if asked and said and asked.isdisjoint(said):
            return True
    return False
