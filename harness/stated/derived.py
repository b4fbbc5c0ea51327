"""Last clause of a response that derives the asked number from others: "6 - 4, which leaves 2".

`harness.stated.numbers` reads the clause alone. It counts if its number is the sum of those before
it, or the sum, difference, product or quotient of two, and if it has no words that the question
lacks: after "5 wear helmets, which leaves 3 without" the number without is not the asked one.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, islice

from harness.stated.kinds_of_things import are_other_things, asked_things, stems_of
from harness.stated.numerals import SMALL, numerals
from harness.stated.roles import NEUTRAL, is_function_word

MOST = 8
"""Most numbers before the clause."""
ROUNDED = 0.01
"""Largest relative difference of a result from its calculation."""
_OPENS = re.compile(
    r"(?<![.!?:\n]),?\s(?:(?:and )?(?:giving|leaving|making|yielding|resulting in|for"
    r"|which (?:gives|leaves|makes|results in|means|yields|is|adds up to))\s"
    r"(?:us |it |a total of )?"
    r"|(?:so|thus|hence|therefore)[, ]\s?)(?=(?:[^.!?\n]|\.\d|i\.e\.)*[.!*]*\s*\Z)",
    re.IGNORECASE,
)
"""The beginning of a concluding clause: ", giving ", ", so "."""
_NUMBER = re.compile(
    rf"(?<![\w.,-])(?:\d{{1,9}}(?:\.\d{{1,9}})?(?![\d:.,]*\d)|{SMALL})", re.IGNORECASE
)
_DENIES = re.compile(r"(?i:\b(?:not|no|none|without|un\w+)\b|n['’]t\b)")
_COUNTED = re.compile(rf"\b(?:\d+|{SMALL})\s((?:[a-z]+\s)?[a-z]+)", re.IGNORECASE)
"""A number and what it counts."""
_PREDICATE = re.compile(r"\s(?:who|which|that|are|is|were|was|not|without)\b")
_CHANGES = re.compile(
    r"\b(?:increas|decreas|differ|chang|gr[eo]w|r[io]se|f[ae]ll|drop|more|less|fewer)",
    re.IGNORECASE,
)
_FILLS = stems_of(
    "overall altogether together increase decrease difference people person end left remain"
)
_RESULTS = re.compile(
    r"\b(?:total|sum|difference|ratio|average|mean|change|area|perimeter|combined|together)\b",
    re.IGNORECASE,
)
"""Words of questions that ask for a result of several quantities."""


def derived_clause(text: str, question: str) -> str | None:
    """Return the number with its noun of a last clause that calculates it from those before it.

    None if there is no such clause.

    >>> text = "Of the 8 people, 5 wear helmets, which leaves 3 who are not wearing one."
    >>> derived_clause(text, "How many people are not wearing helmets?")
    '3'
    >>> derived_clause(text, "How many people are wearing helmets?")
    """
    text = text.strip() if question else ""
    for opening in reversed(list(_OPENS.finditer(text))):
        clause = text[opening.end() :]
        values = _values(_without_pronouns(clause))
        before = _values(text[: opening.start()])[:MOST]
        if len(values) != 1 or len(before) < 2:
            continue
        is_result = any(
            abs(values[0] - result) <= ROUNDED * abs(values[0]) for result in _results(before)
        )
        if is_result and is_of_question(text[: opening.start()], clause, question):
            number = _NUMBER.search(clause)
            return None if number is None else _PREDICATE.split(clause[number.start() :])[0]
    return None


def _values(text: str) -> list[float]:
    """Return the values of all numbers, also of those in "the six" and "out of 8"."""
    tokens = islice(_NUMBER.finditer(text), 2 * MOST)
    return [number.value for token in tokens for number in numerals(token[0])]


def _without_pronouns(clause: str) -> str:
    """Return a clause without "one" that stands for a thing: "wearing one"."""
    return re.sub(r"(?<=[a-z]ing )ones?\b|\bones?(?=\W*\Z)", "", clause)


def _results(values: Sequence[float]) -> Iterator[float]:
    """Yield the sum of all values, and the results of each two."""
    yield sum(values)
    for first, second in combinations(values, 2):
        yield from (first + second, abs(first - second), first * second)
        if first and second:
            yield from (first / second, second / first)


def is_of_question(before: str, clause: str, question: str) -> bool:
    """Return True if a clause has only words of the question, and denies if that does.

    Words of the question that are not in the clause, beside the counted noun, may say that a number
    before the clause is asked for: "each ticket is $5 and we need 4, so $20".
    """
    denies, asks_denied = (bool(_DENIES.search(text)) for text in (clause, question))
    said, asked = _content(clause), _content(question)
    is_change, asks_change = (bool(_CHANGES.search(text)) for text in (clause, question))
    if denies != asks_denied or is_change > asks_change or not said - _FILLS <= asked:
        return False
    things = " ".join(part[-1] for part in asked_things(question))
    nouns = stems_of(things)
    if denies or is_change:
        return True
    if not nouns:
        return bool(_RESULTS.search(question)) or (asked - said).isdisjoint(_content(before))
    counted = " ".join(_COUNTED.findall(before)).split()
    has_others = any(are_other_things(word, things) for word in counted)
    return asked - said - nouns <= _FILLS and not (has_others and said.isdisjoint(nouns))


def _content(text: str) -> set[str]:
    """Return the stems of a text's words, without function words and neutral ones."""
    words = re.findall(r"[^\W\d_]{3,}", text.casefold())
    return stems_of(" ".join(word for word in words if not is_function_word(word))) - NEUTRAL
