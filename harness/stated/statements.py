"""Where a number is stated: it begins a sentence, or follows a word that states it."""

import re

from harness.stated.refusals import denied_after, denies

ABOUT_ANSWER = re.compile(
    r"\W*(?:correct|right|consistent|based|supported|given|obtained|above|below|as follows|clear"
    r"|evident|obvious|shown|that|because)\b"
)
"""Words that may follow "the answer is" where no answer does."""
_STATES = (
    r"(?i:[:=≈→]|\b(?:is|are|was|were|be|equals?|has|have|contains?|counts?|counted|see|say|guess"
    r"|estimated?|measures?|gives?|get|totals?|found|appears?|like|moved|travel(?:s|l?ed)|at|but"
    r"|so|thus|hence|therefore|go with"
    r"|ist|sind|gibt|est|sont|y a|es|son|hay|sono)\b|['’](?:s|re)\b|[是为為有共])"
)
_FILLS = (
    r"(?i:[\s*_`\"'“”$€£₹¥#~≈(\[{:=,]|\\(?:boxed|left|displaystyle|mathbf|[(\[])?"
    r"|\b(?:about|approximately|approx\.?|roughly|around|circa|ca\.|exactly|precisely|only|just"
    r"|likely|probably|nearly|almost|in total|equal to|at|the|yes|ok(?:ay)?|sure|an?|estimated"
    r"|(?:an? |the )?(?:(?:total )?(?:number|count|distance|length|height|width|depth|size|area"
    r"|volume|speed)|total|sum|value|estimate) of|(?:(?:the |my )?final )?answer)(?!\w)"
    r"|大约|大概|约)"
)
_LEADS = re.compile(rf"(?:\A|{_STATES}){_FILLS}*\Z")
_SENTENCE_END = re.compile(r"[.!?;]\s|[\n。；！？]")
_ABOUT_INPUT = re.compile(r"(?i:[-\s]*(?:frames?|turns?|steps?|tokens?|bytes|[kmg]i?b)\b)")
_OF_INPUT = re.compile(
    r"\W*(?i:(?:the|my|this|our|maximum)\s+){0,2}(?i:video|clip|footage|knowledge|context|model)\b"
    r"(?:\s+\w+)?\s*(?i:is|lasts|was|[=:])"
)
_MAXIMUM = re.compile(r"(?i:\b(?:max|min)(?:imum)?[.:=\s]*)\Z")


def _sentence_before(text: str, start: int) -> str:
    return _SENTENCE_END.split(text[max(0, start - 200) : start])[-1]


def is_denied(text: str, start: int, end: int) -> bool:
    """Return True if the words around a number, from start to end, deny it."""
    sentence = _sentence_before(text, start)
    opens = not re.search(r"\w", sentence)
    return denies(sentence) or (opens and denied_after(text[end : end + 200]))


def states_number(text: str, start: int, end: int) -> bool:
    """Return True if a number begins a sentence or follows a word that states it."""
    sentence = _sentence_before(text, start)
    if _MAXIMUM.search(sentence) or not _LEADS.search(sentence):
        return False
    if _OF_INPUT.match(sentence):
        return False
    about = _ABOUT_INPUT.match(text, end)
    return about is None or not (
        re.search(r"\w", sentence) or re.search(r"\w", text[about.end() :])
    )
