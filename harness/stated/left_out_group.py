"""Detection of counts of the group that a question leaves out: "2 wear hats" of those who do not.

`harness.stated.numbers` calls `counts_left_out_group` with each response.
"""

import re

_COUNTED = re.compile(
    r"(?i:\b(?:how many|number of|(?:percent(?:age)?|share|fraction|proportion) of)\b"
    r"(?P<group>[^?.!]*))"
)
_DENIAL = re.compile(r"(?i:\b(?:not|without|no|none|neither|un\w+)\b|n['’]t\b|less\b)")
_OF_ANY = re.compile(
    r"(?i:\b(?:have|has|does|that|with|from|this|these|those|image|video|picture|the|and|any|are|is"
    r"|was|were|for|his|her|its|one|all|you|see|can|who)\b)"
)
_WORD = re.compile(r"[^\W\d_]{4,}")
_WORD_OF_SHARE = re.compile(r"[^\W\d_]{3,}")
_SHARE = re.compile(r"(?i:\b(?:percent(?:age)?|share|fraction|proportion) of\b)")
_TIMES = re.compile(r"(?i:\bhow many times\b)")
_OPPOSITES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:is|are|was|were) (?:turned |switched )?(?:(on)|(off))(?=\W*\Z|[.,;]| and| but)",
        r"\b(?:(enter|come in|walk in)|(leav|exit|come out|walk out))",
        r"\b(?:(get on|board)|(get off|alight))",
        r"\b(?:(disagree|disapprov|dislik)|(agree|approv|lik(?:e|es|ed)\b))",
        r"\b(?:(unlit)|(lit)\b)",
        r"\b(?:((?<!photo was )taken|occupied|full(?! (?:image|view)))"
        r"|(empty|(?<!feel )free|vacant|unoccupied))\b",
        r"\b(?:(open)|(closed|shut))\b",
        r"\b(?:((?<!the )left(?! (?:bar|side|of))|remain\w*)"
        r"|(eaten|gone|consumed|sold|switched off|turned off))\b",
        r"(?:(\bon\b(?=\W*\Z))|(\bswitched off|\bturned off))",
    )
)
"""Patterns of states and movements whose first group is the opposite of the second."""


def counts_left_out_group(text: str, question: str) -> bool:
    """Return True if a text counts only those of whom what a question asks does not hold.

    That is: the question denies something ("not wearing hats") and the text says it without a
    denial, or the text says the opposite word of `_OPPOSITES` alone.

    >>> asked = "How many people are not wearing hats?"
    >>> [counts_left_out_group(text, asked) for text in ("2 wear hats", "2 have no hats", "2")]
    [True, False, False]
    """
    counted = _COUNTED.search(question)
    if counted is None:
        return False
    denial = _DENIAL.search(counted["group"])
    if denial and not _DENIAL.search(text):
        denied = _OF_ANY.sub("", counted["group"][denial.end() :])
        if denial[0][:2].casefold() == "un":  # "unripe"
            denied = denial[0][2:]
        words = _WORD_OF_SHARE if _SHARE.search(question) else _WORD
        stems = {word[:4].casefold() for word in words.findall(denied)}
        if any(word[:4].casefold() in stems for word in words.findall(text)):
            return True
    for opposites in () if _TIMES.search(question) else _OPPOSITES:
        asked, said = (
            {match.lastindex for match in opposites.finditer(words)}
            for words in (counted["group"], text)
        )
        if asked and said and asked.isdisjoint(said):
            return True
    return False
