"""Reader of sentences that answer "Is there a dog?" without "yes" or "no": "I see no dog."."""

import re

from harness.stated.kinds_of_things import is_wider

MAX_SENTENCE = 2000
"""Most characters of a sentence that is read without a yes or no."""
_SMALL = frozenset(
    "a an any the some of this that visible present"
    " shown seen indeed clearly definitely also here there anywhere".split()
)
_IN_IMAGE = re.compile(r"\b(?:in|on|of) (?:the|this) (?:image|picture|photo|video)\b")
ASKS_THERE = re.compile(
    r"(?:(?:is|are|was|were)\sthere|(?:can|do) you see|(?:does|do) (?:the|this)"
    r" (?:image|picture|photo|video) (?:show|contain|have|include|depict))\s(?P<what>.*)"
)
THERE = re.compile(
    r"(?:(?:there|it|this)(?:['’]s| is)|there (?:are|was|were)"
    r"|(?:you|we|i|one) (?:can )?(?:clearly )?see"
    r"|(?:the|this) (?:image|picture|photo|video) (?:shows|contains|has|depicts))\s(?P<what>.*)"
)
_IMAGES = (
    r"(?!.*\b(?:picture|photo|painting|poster|billboard|magazine|mug|screen|tv|mirror|reflection"
    r"|book|sign|logo|shirt)s?\b)"
)
IS_LYING = re.compile(
    r"(?P<what>an? [^\W\d_]+(?: [^\W\d_]+){0,2}) is (?:lying|sitting|standing|walking|running"
    rf"|sleeping|resting|hanging|playing|swimming|flying|eating|looking)\b{_IMAGES}(?: .*)?"
)
IS_THERE = re.compile(
    r"(?P<what>[^\W\d_]+(?: [^\W\d_]+){0,4}) (?:is|are) (?:\w+ )?"
    r"(?:(?:visible|there|present|here|shown)\b|in (?:the|this) (?:image|picture|photo|video)\b)"
)
_ANY = r"(?=\san?\b|\sany\b)"
_IS_NOT = re.compile(
    r"(?:there (?:is|are) no (?:evidence|signs?|indications?|traces?) of"
    rf"|there (?:is|are) no(?= )|there (?:is|are)(?: not|n['’]t){_ANY}"
    rf"|(?:(?:i|we) (?:do not|don['’]t|can ?not|can['’]t) see"
    r"|(?:the|this) (?:image|picture|photo|video) (?:does not"
    rf"|doesn['’]t) (?:show|contain|have)){_ANY}"
    r"|(?:i|we) (?:can )?see no)\s(?P<what>.*)"
    r"|no (?P<which>[^.]{1,60}) (?:is|are|can be)"
    r" (?:visible|present|shown|seen|depicted|there|here)\b(?P<where>.{0,60})"
)
_RESTRICTED = re.compile(
    r"\b(?:or|all|every|each|both|only|always|most|not?|more|less|fewer|than|exactly)\b|n['’]t\b"
)
"""Words of questions to which such a sentence may be no answer."""
_DOUBTS = re.compile(
    r"\b(?:not?|but|if|or|maybe|perhaps|might|may|could|almost|like|missing|lack\w*|absent)\b"
    r"|n['’]t\b"
)
_ONLY = re.compile(r", (?=(?:only|just|but|although|though)\b)")
"""Words after a denial: "there is no clock, only a mirror"."""
_INSTEAD = re.compile(r"\. (?=(?:it|the \w+(?: [io]n the \w+)?) is an? \w+\Z)")
"""The end of a sentence before one that names another thing."""
_BUT_NO = re.compile(r"\Athere (?:is|are|['’]s) [^,]{1,60}, but no ([^,.;]{1,60})\Z")
_IN_PLACE = re.compile(
    r" (?:on|in|at|near|under|behind|beside|next to|leaning|lying|sitting|standing|parked|hanging"
    rf"|walking)\b{_IMAGES}"
)
"""The beginning of a place, where there are no images of things."""
_OPENING = re.compile(
    r"(?:based on|according to|looking at|judging (?:by|from)|in|from) (?:the|this) (?:\w+ )?"
    r"(?:image|picture|photo|video|scene|frame)(?: (?:provided|shown|given|above))?,\s"
)


def present(text: str, question: str) -> str | None:
    """Return "yes" or "no" for a sentence that says whether the thing of a question is there.

    Both name the same things and numbers; other sentences are None.

    >>> asked = "Is there a dog in the image?"
    >>> [present(f"{said}.", asked) for said in ("There is no sign of a dog", "I see a dog")]
    ['no', 'yes']
    >>> [present(f"{said}.", asked) for said in ("I see no cat", "I see a toy dog")]
    [None, None]
    """
    if len(text) > MAX_SENTENCE:
        return None
    asked = re.split(r"[.!?\n]", question.casefold().strip().removesuffix("?"))[-1].strip()
    asks = ASKS_THERE.fullmatch(asked)
    sentence = _OPENING.sub("", text.casefold().strip(" *_\n"), count=1).rstrip(" .!*_")
    instead = _INSTEAD.search(sentence)
    if instead and not _IS_NOT.fullmatch(sentence[: instead.start()]):
        instead = None
    if goes_on := instead or _ONLY.search(sentence):
        rest = sentence[goes_on.end() :]
        is_of_others = set(names(asks["what"]) if asks else ()).isdisjoint(names(rest))
        sentence = sentence[: goes_on.start()] if is_of_others else sentence
    if denied := _BUT_NO.search(sentence):
        sentence = f"there is no {denied[1]}"
    if asks is None or _RESTRICTED.search(asked) or re.search(r"[.!?,;:—–\n]", sentence):
        return None
    is_there = THERE.fullmatch(sentence) or IS_THERE.fullmatch(sentence)
    is_there = is_there or IS_LYING.fullmatch(sentence)
    is_not = _IS_NOT.fullmatch(sentence)
    if is_not:
        here = is_not["what"] or f"{is_not['which']}{is_not['where']}"
    elif is_there and not _DOUBTS.search(sentence):
        here = is_there["what"]
    else:
        return None
    said, wanted = names(here), names(asks["what"])
    if not is_not and said != wanted and not _IN_PLACE.search(asks["what"]):
        said = names(_IN_PLACE.split(here)[0])
    is_same = said == wanted != [] or (is_not and is_wider(" ".join(said), asks["what"]))
    is_same = is_same and _digits(here) == _digits(asks["what"])
    return ("no" if is_not else "yes") if is_same else None


def names(text: str) -> list[str]:
    """Return the words of a text without small words such as "the", in the singular."""
    words = re.findall(r"[^\W\d_]+", _IN_IMAGE.sub("", text))
    return [word.removesuffix("s") for word in words if word not in _SMALL]


def _digits(text: str) -> list[str]:
    return re.findall(r"\d+", text)
