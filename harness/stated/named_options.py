"""Reader of an option that a sentence names by its text, or points at by its letter at the end.

`harness.stated.letters` calls these functions for a response that states its letter in no other
way.
"""

import re
from collections.abc import Iterator, Sequence

from harness.stated.languages import is_foreign
from harness.stated.option_text import lists_options, options_by_letter

_POINTS = re.compile(
    r"\b(?:corresponds? to|corresponding to|(?i:this|that|which) (?:matches|fits)"
    r"|(?:\A|[.,;:\n]\s)(?i:which|this|that|it)(?: is|['’]s))\s(?:the )?(?:option|choice"
    r"|answer)\s[*_(]{0,4}([A-Z])[*_)]{0,4}\W*\Z"
)
"""The end of a response that points at an option: "which corresponds to option (B)"."""
_DOUBTS = re.compile(
    r"\b(?i:not?|nothing|never|neither|nor|none|least|worst|wrong|incorrect\w*|unlike\w*|false|except|or|if"
    r"|unless|but|however|although|though|maybe|perhaps|possibly|might|may|could|would|cannot"
    r"|initially|instead|rather|unclear|unsure|should|whether|both|either|other|another|than"
    r"|hardly|barely|without|and|also|while|whereas|tempt\w+|mistak\w+|incompatible"
    r"|discard\w*|fail\w*|distract\w*|rul\w+ out|eliminat\w+|exclud\w+|second|next)\b|n['’]t\b|\?"
)
"""Words of responses, and of questions, after which an option may not be the answer."""
_REJECTS = (
    r"[*_)]{0,4}\s(?i:(?:could|might|may) be (?:the |an? )?(?:\w+ ){0,2}(?:answer|option|choice"
    r"|correct|right)|(?:is|was|seems|looks|would be) (?:the |an? )?(?:\w+ )?(?:worst|least|wrong"
    r"|incorrect|unlikely|false|invalid|opposite|second|next|another|distractor)\b)"
)
"""Predicates after a letter: " is the worst answer", " could be the answer"."""
_ASKS_OTHERWISE = re.compile(
    r"\b(?i:not|never|neither|least|worst|wrong|incorrect\w*|unlike\w*|false|except|without|before"
    r"|after|other|another|opposite|missing|lacks?|lacking|incompatible)\b|n['’]t\b"
)
"""Words of questions to which a sentence with its words and an option may be no answer."""
_OPENING = re.compile(
    r"\A(?i:(?:based on|according to|looking at|judging (?:by|from)|as (?:seen|shown) in|in|from)"
    r" (?:the|this) (?:\w+ )?(?:image|images|picture|photo|video|scene|frames?|clip|chart|figure"
    r"|diagram|graph|table|map|plot)(?: (?:provided|shown|given|above))?,\s|(?:so|thus|hence"
    r"|therefore),?\s)"
)
_IS = r"(?:is|are|was|were)(?:\s(?:in|on|at|to|the|an?|of)){0,3}"
_SMALL = frozenset(
    "the a an is are was were it this that there he she they its his her their to of in on at by"
    " be do does did has have had which who what image picture photo video shown visible seen"
    " where color colour state condition how many number count there doing".split()
)
_ENDINGS = re.compile(r"(?:ing|es|ed|s)\Z")


def with_letters_alone(text: str, options: Sequence[str]) -> str:
    """Return a text with its one option that is named by letter and text as the letter alone.

    A text that names several options so is not changed.

    >>> with_letters_alone("Of these, C. the cow is the best answer.", ("a", "b", "the cow"))
    'Of these, (C) is the best answer.'
    """
    if lists_options(text, options):
        return text
    named = [
        (letter, re.search(_named(letter, name), text, re.IGNORECASE))
        for letter, name in options_by_letter(options)
        if name
    ]
    matches = [match for letter, match in named if match and match[1] == letter]
    if len(matches) != 1:
        return text
    match = matches[0]
    return f"{text[: match.start()]}({match[1]}){text[match.end() :]}"


def _named(letter: str, name: str) -> str:
    """Return the pattern of an option's letter and text: "C. the cow", "(C) the cow"."""
    quote = r"[\"'“”‘’*_]{0,3}"
    return (
        rf"(?<!\w)\(?({letter})(?:\)|[.:)]{{1,2}}|\s[–—-]|(?=\s\())\s{{0,3}}[(]?{quote}"
        rf"{re.escape(name)}{quote}\)?(?!\w)"
    )


def is_rejected(text: str, letter: str) -> bool:
    """Return True if a predicate after a letter says that its option is not surely the answer.

    >>> is_rejected("C is the worst answer.", "C"), is_rejected("C is the best answer.", "C")
    (True, False)
    """
    return re.search(rf"(?<!\w){letter}(?!\w){_REJECTS}", text) is not None


def pointed_at(text: str, letters: str) -> set[str]:
    """Return the letter at the end of a text that points at it, if it is the text's only letter.

    >>> pointed_at("It moos, which corresponds to option (C).", "ABCD")
    {'C'}
    >>> pointed_at("It does not bark, which rules out A and corresponds to option C.", "ABCD")
    set()
    """
    points = _POINTS.search(text, max(0, len(text) - 80))
    last = re.split(r"[.!?]\s|\n", text.rstrip(" .*\n"))[-1]
    capitals = set(re.findall(rf"(?<!\w)[{re.escape(letters)}](?!\w|['’])(?<!A(?=\s[a-z]))", text))
    if points is None or _DOUBTS.search(last) or capitals - {"I", points[1]}:
        return set()
    return {points[1]} & set(letters)


def answering(text: str, options: Sequence[str], question: str) -> set[str]:
    """Return the letter of the one option whose text ends a sentence that answers a question.

    Its other words are those of the question, but for small ones.

    >>> options = ("white", "black")
    >>> said = "The shirt is white.", "The wall is white.", "The shirt is not white."
    >>> [answering(text, options, "What color is the shirt?") for text in said]
    [{'A'}, set(), set()]
    """
    sentence = _OPENING.sub("", text.strip(" *_\n")).rstrip(" .*_\n")
    is_one = len(sentence) < 400 and not re.search(r"[.!?;:]\s|\n", sentence)
    if not (question and is_one) or _ASKS_OTHERWISE.search(question) or is_foreign(sentence):
        return set()
    lower = sentence.casefold()
    named = {
        letter: subject
        for letter, name in options_by_letter(options)
        if name and (subject := _subject(lower, name)) is not None
    }
    mentioned = [
        letter
        for letter, name in options_by_letter(options)
        if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", lower)
    ]
    if len(named) != 1 or set(mentioned) != set(named):
        return set()
    ((letter, subject),) = named.items()
    words = list(_stems(subject))
    is_it = subject in ("it", "they", "this", *re.findall(r"\b(?:s?he)\b", question.casefold()))
    is_same = is_it or words == list(_stems(question)) != []
    is_answer = is_same and not _DOUBTS.search(subject)
    return {letter} if is_answer else set()


def _subject(sentence: str, name: str) -> str | None:
    """Return the words beside an option in a sentence that it ends, or "there are 3 birds"."""
    ends = re.fullmatch(rf"(?P<subject>.{{2,300}}?)\s{_IS}\s{re.escape(name)}", sentence)
    if ends:
        return ends["subject"]
    if name.isdigit():
        counts = re.fullmatch(
            rf"there (?:is|are) (?:a total of |exactly )?{name}\s(?P<subject>.{{3,200}})", sentence
        )
        return counts["subject"] if counts else None
    return None


def _stems(text: str) -> Iterator[str]:
    """Yield the words of a text, in small letters, without small words and common endings."""
    for word in re.findall(r"[^\W_]+", text.casefold()):
        if word not in _SMALL:
            yield _ENDINGS.sub("", word) if len(word) > 4 else word
