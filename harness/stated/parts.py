"""Removal of partial counts after a response's count: "There are three glasses. Two are red."

`harness.stated.numbers` calls `without_parts` before it reads the one number of a response. The
first number counts only if the question does not ask for a part ("How many glasses are red?"), and
if the parts are of the counted things.
"""

import math
import re
from collections.abc import Collection
from itertools import islice

from harness.stated.languages import NOT_KNOWN
from harness.stated.numerals import SMALL, numerals
from harness.stated.sentence_values import MOST, sentence_before

_NUMBER = rf"(?:\d{{1,4}}|{SMALL})"
_OF = r"of\s(?:which|whom|them|these|those)"
_IS = r"(?:is|are|was|were|has|have|had|sits?|stands?|lies?|looks?|appears?|seems?)\b"
_SAID = rf"(?P<said>(?:(?!\b(?:and|while|whereas|but|,)\s(?:the\s)?{_NUMBER}\b)[^.;:!?\n])*)"
_LISTED = r"(?:(?<=[:—]\s)|(?<=\())"
_PART = re.compile(
    rf"(?i:\b(?:{_NUMBER}\s(?:(?P<of>{_OF})\b|{_IS})|{_OF}\s{_NUMBER}\s|including\s{_NUMBER}\s"
    rf"|(?P<listed>{_LISTED}){_NUMBER}\s){_SAID})"
)
"""A part and its predicate (`said`): "two of them are red", "including 2 cats", "(1 red"."""
_SENTENCE = re.compile(r"[^.!?\n]*(?:[.!?](?=\s|\Z)|\n|\Z)\s*")
_COUNTED_LIST = re.compile(
    rf"(?i:\b(?P<total>{_NUMBER})\b[^.:;!?\d\n]{{0,60}}):\s(?P<list>[^.:;!?\n]{{3,400}})"
)
"""A number with the list of what it counts: "four people: two men, a woman and a child"."""
_ITEMS = re.compile(rf",\s(?:and\s)?|\sand\s(?=(?:an?|another|{_NUMBER})\s)", re.IGNORECASE)
_ITEM = re.compile(rf"(?:({_NUMBER})|an?|another)\s", re.IGNORECASE)
_DENIES = re.compile(
    r"(?i:\b(?:not|never|no|actually|really|in fact|only|just|merely|missing|absent|gone|removed"
    r"|outside|elsewhere|leav\w+|reflect\w+|shadows?|fakes?|toys?|draw\w+|paint\w+"
    r"|pictur\w+|photo\w*|posters?|prints?|statues?|models?|duplicat\w+|doubles?|same)\b|n['’]t\b)"
)
"""Words after which a part may be of other things than the counted ones: "one is a reflection"."""
_ASKS = re.compile(r"(?i:\b(?:how many|(?:number|count) of|count)\b(?P<what>[^.?!\n]*))")
_PASSED = frozenset(
    "the and are was were has have that this with from its their them other others there here"
    " do you does did can could see visible present shown seen appear appears exist altogether"
    " total image images photo picture scene video clip frame screen view room".split()
)
"""Words of a question that do not restrict it to a part."""
_IS_THING = re.compile(r"(?i:\s*an?\s)")  # "one is a cup"


def without_parts(text: str, question: str, asked: Collection[str]) -> str:
    """Return a text without the sentence after its count that lists parts with that sum.

    The count is replaced by `NOT_KNOWN` if the question may ask for a part, since it has words that
    the text does not have before its parts, or if a part may be of other things.

    Args:
        text: The response.
        question: The question.
        asked: Names of the things that the question asks to count, in the plural.

    >>> text = "There are 3 glasses. Two are red and one is blue."
    >>> without_parts(text, "How many glasses are there?", {"glasses"})
    'There are 3 glasses. '
    >>> without_parts(text, "How many glasses are red?", {"glasses"})
    'There are 0/0 glasses. Two are red and one is blue.'
    """
    text = _without_list(text, question, asked)
    first = next(numerals(text), None)
    parts = list(islice(_PART.finditer(text, first.end), MOST)) if first else []
    if first is None or not parts:
        return text
    restriction = _restriction(question, asked)
    lead = sentence_before(text, first.start) + text[first.end : parts[0].start()]
    predicates = _stems(" ".join(part["said"] for part in parts))
    is_denied = any(_DENIES.search(part["said"]) for part in parts if part["listed"] is None)
    if is_denied or not restriction <= _stems(lead) or not restriction.isdisjoint(predicates):
        return text[: first.start] + NOT_KNOWN + text[first.end :]
    counted = _SENTENCE.match(text, first.end)
    listed = _SENTENCE.match(text, counted.end()) if counted else None
    if counted is None or listed is None:
        return text
    values = [number.value for number in islice(numerals(text), 1, MOST)]
    is_sum = len(values) == len(parts) > 1 and sum(values) == first.value
    are_listed = all(
        listed.start() <= part.start() < listed.end() and _is_plain_part(part) for part in parts
    )
    names_things = not set(asked).isdisjoint(re.findall(r"\w+", counted[0].casefold())[:5])
    if not (is_sum and are_listed and names_things):
        return text
    return text[: listed.start()] + text[listed.end() :]


def _restriction(question: str, asked: Collection[str]) -> set[str]:
    """Return the stems of a question's words that may restrict its things to a part."""
    asks = _ASKS.search(question)
    return _stems(asks["what"]) - _stems(" ".join((*_PASSED, *asked))) if asks else set()


def _without_list(text: str, question: str, asked: Collection[str]) -> str:
    """Return a text without a list after a colon whose items sum up to the number before it.

    It stays if the question has a word that restricts its things and the list has that word too.

    >>> text = "There are four people: two men, a seated woman and a child."
    >>> [_without_list(text, f"How many people are {where}?", {"people"})
    ...  for where in ("there", "seated")]
    ['There are four people.', 'There are four people: two men, a seated woman and a child.']
    """
    counted = _COUNTED_LIST.search(text)
    if counted is None:
        return text
    counts = [_count_of(item) for item in _ITEMS.split(counted["list"])]
    is_sum = next(numerals(counted["total"])).value == sum(counts)
    is_part = not _restriction(question, asked).isdisjoint(_stems(counted["list"]))
    start, end = counted.span("list")
    return text[: start - 2] + text[end:] if is_sum and not is_part else text


def _count_of(item: str) -> float:
    """Return how many things an item of a list names: "two men", "a child"; else NaN."""
    begins = _ITEM.match(item)
    if begins is None:
        return math.nan
    return next(numerals(begins[1])).value if begins[1] else 1


def _is_plain_part(part: re.Match[str]) -> bool:
    """Return True for "two are red", and not for "two of them", "(two" or "one is a cup"."""
    is_of_group = part["of"] is not None or part["listed"] is not None
    return not is_of_group and _IS_THING.match(part["said"]) is None


def _stems(text: str) -> set[str]:
    """Return the first five letters of each word of a text that has at least three."""
    return {word[:5] for word in re.findall(r"[^\W\d_]{3,}", text.casefold())}
