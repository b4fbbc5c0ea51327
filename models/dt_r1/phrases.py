"""Extract the phrases of a question that name things; nodes with `by_question` look for them.

They are the candidate key phrases of RAKE (Rose et al. 2010): runs of words between punctuation and
the words of `stop_words.txt`. They depend on the question's text only, not on its answer, options
or annotation.
"""

import re
from functools import cache
from itertools import groupby

from harness.models.prompts import text_of

MAX_WORDS = 3
"""Most words of a phrase; of a longer run the last words count, where English has the noun."""
MAX_CHARACTERS = 32
"""Most characters of a phrase: OWLv2 reads 16 tokens, six of which surround the phrase."""
MAX_PHRASES = 12
"""Most phrases of a question."""
TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")
"""Matches a word ("woman's", "red-hot") or one punctuation mark."""


@cache
def _stop_words() -> frozenset[str]:
    """Return the English words, such as "the" and "uses", at which phrases end."""
    return frozenset(text_of("harness.models.dt_r1", "stop_words.txt").split())


def phrases_of(question: str) -> tuple[str, ...]:
    """Return the phrases of a question in lower case, in order, without repetition.

    >>> phrases_of("Segment the red mug that the woman, not the man, uses to hold hot beverages.")
    ('red mug', 'woman', 'man', 'hot beverages')
    """
    tokens = (token.casefold() for token in TOKEN.findall(question[:2000]))
    runs = (list(run) for is_name, run in groupby(tokens, key=_is_part_of_name) if is_name)
    phrases = (" ".join(run[-MAX_WORDS:]) for run in runs)
    short = dict.fromkeys(phrase for phrase in phrases if len(phrase) <= MAX_CHARACTERS)
    return tuple(short)[:MAX_PHRASES]


def _is_part_of_name(token: str) -> bool:
    """Return True for a word that may be part of a name: no stop word, number or single letter."""
    return len(token) > 1 and not token.isdigit() and token not in _stop_words()
