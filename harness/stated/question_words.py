"""Removal of the question's own words before the number of a response: "The home team scored 21".

`harness.stated.numbers` calls `without_question_words`: a sentence that begins with nothing but
words of its question states its number of the asked things, or of money, whatever the verb.
"""

import re
from itertools import islice

from harness.stated.kinds_of_things import asked_things
from harness.stated.languages import is_foreign
from harness.stated.numerals import numerals
from harness.stated.refusals import denies
from harness.stated.roles import is_function_word
from harness.stated.sentence_values import sentence_before

LETTERS = 4
"""Letters by which forms of a word are one word: "score", "scored"."""
_CHANGES = frozenset(
    "if than nor or but only just not no cannot between until before after up down out off"
    " each every per some any both other another most half".split()
)
"""Function words after which a number may be another than the asked one."""
_MONEY = {word[:LETTERS] for word in ("dollars", "euros", "pounds", "cents", "yuan", "yen")}
_PREPOSITIONS_BEFORE = re.compile(
    r"\b(?:for|from|at|to|of|in|on|with|above|below|over|under)\s(?:the\s|about\s)?\Z",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")


def without_question_words(text: str, question: str) -> str:
    """Return a text whose one number follows "it is", if only words of the question are before it.

    >>> without_question_words("They scored 21 points.", "How many points did they score?")
    'it is 21 points.'
    >>> without_question_words("They lost 21 points.", "How many points did they score?")
    'They lost 21 points.'
    """
    numbers = list(islice(numerals(text), 2))
    if len(numbers) != 1 or is_foreign(text) or is_foreign(question):
        return text
    start, counted = numbers[0].start, _WORD.match(text[numbers[0].end :].lstrip())
    nouns = {part[-1][:LETTERS] for part in asked_things(question)}
    if counted is None or counted[0].casefold()[:LETTERS] not in nouns | _MONEY:
        return text
    before = sentence_before(text, start)
    words = _WORD.findall(before.casefold())
    asked = {word[:LETTERS] for word in _WORD.findall(question.casefold())}
    named = [word for word in words if not is_function_word(word)]
    is_led = bool(named) and all(word[:LETTERS] in asked for word in named)
    is_related = _PREPOSITIONS_BEFORE.search(before) is not None
    if not is_led or is_related or denies(before) or _CHANGES.intersection(words):
        return text
    return f"{text[: start - len(before)]}it is {text[start:]}"
