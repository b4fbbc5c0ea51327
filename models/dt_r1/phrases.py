"""Phrases of a question that name things: nodes with `by_question` look for them.

They are the candidate key phrases of RAKE (Rose et al. 2010): runs of words between punctuation and
the words of `stop_words.txt`. They depend on the question's text alone, so that equal questions
give equal phrases, in training as in evaluation, and no answer, option or annotation is in them.
"""

import re
from functools import cache
from itertools import groupby

from harness.models.prompts import text_of

WORDS = 3
"""Longest phrase: of a longer run the last words, for in English the noun comes last."""
CHARACTERS = 32
"""Longest phrase: OWLv2 reads 16 tokens, six of them around the phrase."""
PHRASES = 12
TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]")


@cache
def _stop_words() -> frozenset[str]:
    return frozenset(text_of("harness.models.dt_r1", "stop_words.txt").split())


def phrases_of(question: str) -> tuple[str, ...]:
    """Return what a question names, in its order, without repetition; lower case.

    >>> phrases_of("Segment the red mug that the woman, not the man, uses to hold hot beverages.")
    ('red mug', 'woman', 'man', 'hot beverages')
    """
    tokens = (token.casefold() for token in TOKEN.findall(question[:2000]))
    runs = (list(run) for named, run in groupby(tokens, key=_names) if named)
    phrases = (" ".join(run[-WORDS:]) for run in runs)
    kept = dict.fromkeys(phrase for phrase in phrases if len(phrase) <= CHARACTERS)
    return tuple(kept)[:PHRASES]


def _names(token: str) -> bool:
    """Return True for a word that may be part of a name."""
    return len(token) > 1 and not token.isdigit() and token not in _stop_words()
