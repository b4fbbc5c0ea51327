"""Sentences behind "yes" or "no" that say the opposite."""

import re

from harness.stated.refusals import denies

_FIRST = re.compile(r"\W*(?i:yes|no)\b[\s,.:;!—–-]{0,4}(?P<said>[^.!?\n]{0,300})")
_ABSENT = re.compile(
    r"\b(?:lack(?:s|ing|ed)?|devoid|zero|hardly|barely|scarcely|absent|absence|missing|nowhere|unable"
    r"|can ?not (?:see|find|tell|make out|view)|can['’]t (?:see|find|tell|make out|view)"
    r"|free (?:of|from)|nothing but"
    r"|(?:image|picture|photo|frame|scene|room|video|screen|page) (?:is|was|appears|looks|seems)"
    r" (?:\w+ )?(?:blank|empty|black)"
    r"|an? (?:\w+ )?(?:blank|empty) (?:\w+ )?(?:image|picture|photo|frame|scene|room|video|screen"
    r"|page))\b"
)
"""Words that say, after "yes", that something is not there, or that nothing is seen."""
_NOT_NONE = re.compile(
    r"\b(?:(?:not|n['’]t) (?:true|correct|right|the case)|false) that\b"
    r"[^.]*\b(?:no|not|none|nothing|lacks?|absent|missing)\b"
)
_THERE = re.compile(
    r"(?:there(?:['’]s| is| are| was| were)|(?:you|we|i|one) (?:can )?(?:clearly )?see"
    r"|(?:the|this) (?:image|picture|photo|video) (?:shows|contains|has|depicts))\s(?P<what>.*)"
)
_IS_THERE = re.compile(
    r"(?P<what>[^\W\d_]+(?: [^\W\d_]+){0,4}) (?:is|are) (?:\w+ )?"
    r"(?:visible|there|present|here|shown)\b"
)
_PLACED = re.compile(
    r"e?s?(?:\W*\Z|[,;]|\s(?:in|on|at|to|near|next|behind|under|with|that|which|lying|sitting|standing"
    r"|visible)\b)"
)
"""What may follow the name of a thing that is there."""
_ASKS_THERE = re.compile(r"(?:is|are|was|were)\sthere\s(?P<what>.*)")
_SMALL = frozenset(
    "a an any the some at least one in on of image picture photo video this that visible present"  # noqa: SIM905
    " shown seen indeed clearly also here there".split()
)


def says_opposite(said: str, text: str, question: str) -> bool:
    """Return True if the sentence behind a yes or no says the opposite of it.

    Args:
        said: "yes" or "no", which the text states.
        text: The text.
        question: The question, whose own words tell nothing.

    >>> asked = "Is there a dog in the image?"
    >>> says_opposite("yes", "Yes, the image lacks a dog.", asked)
    True
    >>> [says_opposite("no", f"No, there is a {name}.", asked) for name in ("dog", "cat")]
    [True, False]
    """
    first, asked = _FIRST.match(text), question.casefold()
    if first is None:
        return False
    sentence = first["said"].casefold().strip()
    if said == "yes":
        return any(found[0] not in asked for found in _ABSENT.finditer(sentence))
    there = _THERE.match(sentence) or _IS_THERE.match(sentence)
    asks = _ASKS_THERE.search(asked)
    if there and asks and not denies(sentence):
        here, what = _words(there["what"]), _words(asks["what"])
        if not here or here[:1] != what[:1]:
            return False
        goes_on = _PLACED.match(there["what"], there["what"].index(here[0]) + len(here[0]))
        return set(here) <= set(what) or (set(what) <= set(here) and goes_on is not None)
    return _NOT_NONE.search(sentence) is not None


def _words(text: str) -> list[str]:
    """Return the words of a text that tell things apart, in the singular."""
    words = re.findall(r"[^\W\d_]+", text)
    return [word.removesuffix("s") for word in words if word not in _SMALL]
