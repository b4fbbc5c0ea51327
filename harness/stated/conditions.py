"""Detection of statements of a letter that hold only under a condition: "If it is red, then B"."""

import re

from harness.stated.corrections import is_asked

NO_ANSWER = (
    r"(?:decoy|distractors?|trap|lure|red herring|runner-?up|(?:close )?second|mistake"
    r"|(?:first|initial|second|earlier|popular|common) guess)\b"
)
"""Names of an option that is not the answer."""
_SUPPOSED = re.compile(
    r"\b(?i:if)\b[^.!?\n]*(?:,\s?then\b[^.!?\n,]{0,40}|\b(?:answer|option|choice) would be\b"
    r"[^.!?\n,]{0,20})\Z"
)
"""A condition before a statement, on which it depends: "If it is red, then the answer is"."""
_SUPPOSED_SO = re.compile(r"\b(?i:if)\b[^.!?\n]*(?:,\s?then\b[^.!?\n,]*|\bwould be\b[^.!?\n,]*)\Z")
_IF = re.compile(r"\b(?i:if)\b[^.!?\n]*\Z")
_OTHERWISE = re.compile(r"[^.!?\n]*[.;,]\s{0,3}(?i:otherwise|else|if not)(?:[,:]|\s\(?[A-Z]\b)")
"""Words after a statement by which another one holds without its condition."""
_IF_NOT = re.compile(r"\b(?i:if)\b[^\n]*[.;,]\s{0,3}(?i:otherwise|else|if not)\b[^.!?;\n]*\Z")
"""Words before a statement that holds without a condition."""
_CONDITION = re.compile(r"\s*(?i:if|unless)\b")
_AVOIDED = re.compile(
    r"\s(?:to (?:avoid|reject|exclude|eliminate|discard|rule out)"
    r"|(?:that|which) (?:(?:does|do|is|was|can)(?:\snot\b|n['’]t\b)|cannot|fails|lacks))"
)
_IS_NOT = re.compile(
    r"[^.!?\n]{0,40}\s(?:but|yet)\s(?:it|this|that)(?:['’]s| is| does)?(?:\s(?:actually|really))?"
    r"(?:n['’]t|\snot|\swrong|\sincorrect)\W*(?:\Z|[.!])"
)
"""Words after "B is the answer" by which it is not: " to avoid"."""


def is_supposed(text: str, start: int, end: int) -> bool:
    """Return True if a statement, "the answer is B", holds only under a condition before it."""
    before = text[max(0, start - 300) : end]
    return _SUPPOSED.search(before) is not None or _is_of_one_case(text, start, end)


def is_unsure(text: str, start: int, end: int) -> bool:
    """Return True if a verdict, "B is correct", is a question, a condition or holds under one.

    >>> is_unsure("B is correct if it barks.", 0, 12), is_unsure("B is correct.", 0, 12)
    (True, False)
    """
    return bool(
        _CONDITION.match(text, end)
        or _AVOIDED.match(text, end)
        or _IS_NOT.match(text, end)
        or is_asked(text, end)
        or _SUPPOSED_SO.search(text[max(0, start - 300) : end])
        or _is_of_one_case(text, start, end)
    )


def _is_of_one_case(text: str, start: int, end: int) -> bool:
    """Return True for a statement under a condition without which another one holds, or for it."""
    is_otherwise = _IF_NOT.search(text[max(0, start - 300) : end])
    return bool(is_otherwise or (_IF.search(text, 0, start) and _OTHERWISE.match(text, end)))
