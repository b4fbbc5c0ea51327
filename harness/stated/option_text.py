"""Letters of options by their texts: of a response that is, opens with or ends with an option.

`harness.stated.letters` calls these for responses such as "No, there is no dog." to options "Yes"
and "No". All return sets of capital letters, empty if no option is found.
"""

import re
from collections.abc import Iterator, Sequence
from string import ascii_uppercase

from harness.stated.conditions import NO_ANSWER
from harness.stated.foreign_letters import denies_soon
from harness.stated.languages import DENIES
from harness.stated.numerals import numerals
from harness.stated.refusals import denied_after, says_unable

_CLAUSE_ENDS = re.compile(
    r"[*_\"'`”’]{0,3}(?:\s{0,2}[.,;:!—–\n](?!\s?\d)|\s-\s|\s{1,2}\(?(?:because|since)\b|\s*\Z)"
)
_LEFT_OPEN = re.compile(
    r"\W*(?:but|however|although|though|or|and|if|unless|except|maybe|perhaps|possibly|almost)\b"
)
_IS_SUBJECT = re.compile(
    r",\s[^,.!?\n]{1,120},\s(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)"
    r"(?:\s(?:not|never)\b|n['’]t\b)"
)
"""The rest of a sentence that denies something of an option: ", on the left, does not bark"."""
_SENTENCE = re.compile(r"[^\w.!?\n]{0,3}[^.!?\n]*[.!?]?")
_SORRY = re.compile(r"[.!\s]*(?:i|we|sorry|unfortunately)\b[^.!?\n]*")
_CONDITION = re.compile(r"\b(?:if|unless|provided (?:that|the)|assuming)\b|\?")
_OTHERS_CANNOT = re.compile(
    r"\b(?:the|a|an|this|he|she|they)\b[^,.;:\n]{0,40}\b(?:can ?not|can['’]t|could not)"
    r"\s(?!be (?:determined|known|told|answered|identified|inferred|verified|confirmed))"
    r"|\b(?:i|we) (?:do not|don['’]t|can ?not|can['’]t) see (?=(?:an?|any) (?!image|picture|photo))"
)
"""Words on what someone in the image cannot do; they do not say that the model cannot answer."""
_TAKEN_BACK = re.compile(
    r"\b(?:wrong|incorrect|mistaken|ruled out|eliminated|excluded|unlikely|impossible"
    r"|(?:not|n['’]t) (?:right|correct|true|so|it|there|visible|present|shown|in"
    r"|(?:the|an?) (?:\w+ )?(?:answer|option|choice)))\b"
)
_NUMBERED = re.compile(r"\(?(\d{1,2})[.):]\s{1,3}(?=\S)")
_BY_NUMBER = re.compile(
    r"\W{0,4}(?:(?:the )?(?:correct |final )?answer(?: is|:)\s)?"
    r"(?P<named>(?:option|choice)(?: number)?\s)?\W{0,4}(?P<number>\d{1,2})[.:)*]{0,4}\s{0,3}"
)
"""The number of an option at the beginning of a response: "Option 2: "."""
_NO_DOUBT = re.compile(r"\b(?:no|without (?:a |any )?)\s?(?:doubt|question)\b")
_UNWANTED = r"(?:not|rather than|instead of|unlike|as opposed to|than)\s+"
_TURNS = r"(?:[.!?;,\n]|\b(?:but|actually|so|then|however|it is|it['’]s)\b)[\s,:\"'*]{0,4}"
_ANSWER = re.compile(
    r"\b(?:the|my|final|correct|best)\s(?:\w+\s)?(?:answer|option|choice)\b|\banswer\s?:"
)
_POINTED = re.compile(r"\b(?:is|are|was|were|would be)\b")
_UNPOINTED = re.compile(r"\b(?:not|never|least|worst|wrong|incorrect|unlike\w*|or|if)\b|n['’]t\b")
_IS_NO_ANSWER = re.compile(
    r"[^.!?\n]{1,200}?\s(?i:(?:could|might|may) be (?:the |an? )?(?:\w+ )?(?:answer|option|choice)"
    r"|(?:is|was|seems|looks|would be) (?:the |an? )?(?:worst|wrong|incorrect|second best|next best"
    rf"|least \w+) (?:answer|option|choice|one)\b|is (?:an?|the|my) (?:\w+ )?{NO_ANSWER})"
)
"""A sentence behind a letter that is not surely the answer: "the dog is the worst answer"."""
_NOT_SO = re.compile(
    r"\s(?i:(?:is|are|was|were|does|do|did|has|have|can|could)(?:\s+not\b|n['’]t\b)|cannot\b)"
)


def options_by_letter(options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each letter with its option's text, in lower case, without full stops at its ends."""
    for letter, option in zip(ascii_uppercase, options, strict=False):
        yield letter, option.strip(" .").casefold()


def without_no(text: str, options: Sequence[str]) -> str:
    """Remove the option "no" after its letter from a text: it does not take the letter back.

    >>> without_no("(B) no. It is red.", ("yes", "no")), without_no("A. No, B.", ("yes", "no"))
    ('(B). It is red.', 'A. No, B.')
    """
    for letter, name in options_by_letter(() if lists_options(text, options) else options):
        if name == "no":
            text = re.sub(rf"(?<!\w){letter}([.):]{{1,2}})\s{{0,2}}(?i:no)\b", rf"{letter}\1", text)
    return text


def spelt_out(text: str, options: Sequence[str]) -> set[str]:
    """Return the letters of options whose text is the whole text, perhaps with "(B)" after it."""
    plain = text.strip(" .*\"'{}`").casefold()
    return {
        letter
        for letter, name in options_by_letter(options)
        if name and plain in (name, f"the {name}", f"{name} ({letter.lower()})")
    }


def small_with_text(text: str, options: Sequence[str]) -> set[str]:
    """Return the letter of an option if a text is that letter, in lower case, and the option.

    >>> small_with_text("b. the dog", ("the cat", "the dog")), small_with_text("b. a", ("a",))
    ({'B'}, set())
    """
    plain = text.strip(" .*\"'`\n").casefold()
    return {
        letter
        for letter, name in options_by_letter(options)
        if name
        and re.fullmatch(rf"\(?{letter.lower()}[.):]{{1,2}}\s{{0,3}}{re.escape(name)}", plain)
    }


def by_number(text: str, options: Sequence[str]) -> set[str]:
    """Return the letter of the option whose number, which begins its text, a text states.

    A number alone is none if it begins what an option says: that one may be meant.

    >>> options = ("1. the cat", "2. the dog")
    >>> [by_number(text, options) for text in ("Option 2: the dog", "2", "2 dogs", "2. the cat")]
    [{'B'}, {'B'}, set(), set()]
    >>> [by_number(text, ("1. 2 cats", "2. 1 cat")) for text in ("2", "Option 2", "2. 1 cat")]
    [set(), {'B'}, {'B'}]
    """
    numbers = [match and match[1] for match in map(_NUMBERED.match, options)]
    lower = text.casefold().strip(" .*\n")
    stated = _BY_NUMBER.match(lower)
    is_numbered = numbers == [str(place) for place in range(1, len(options) + 1)]
    if not stated or not is_numbered or stated["number"] not in numbers:
        return set()
    place = numbers.index(stated["number"])
    names = [_NUMBERED.sub("", option, count=1).strip(" .").casefold() for option in options]
    rest = lower[stated.end() :]
    said = {number.value for name in names for number in numerals(name) if number.start == 0}
    is_place = bool(stated["named"]) or int(stated["number"]) not in said
    is_clear = rest == names[place] or (not rest and is_place)
    return {ascii_uppercase[place]} if is_clear else set()


def opened_with(text: str, options: Sequence[str]) -> set[str]:
    """Return the letter of the option whose text is the first clause of a text.

    It is empty if the text then denies the option, leaves it open, or names another, and if it
    begins with "Yes" and denies something.

    >>> options = ("Yes", "No")
    >>> [opened_with(text, options) for text in ("No, there is no dog.", "Yes, but actually no.")]
    [{'B'}, set()]
    """
    lower = text.lstrip(" *_\"'`“").casefold()
    begun: dict[str, str] = {}
    for letter, name in options_by_letter(options):
        is_long = len(name) > 1 or name.isdigit()
        if is_long and lower.startswith(name) and _CLAUSE_ENDS.match(lower, len(name)):
            begun[letter] = name
    length = max(map(len, begun.values()), default=0)
    begun = {letter: name for letter, name in begun.items() if len(name) == length}
    if len(begun) != 1:
        return set(begun)
    (name,) = begun.values()
    others = [
        name_of_other
        for _, name_of_other in options_by_letter(options)
        if name_of_other and name_of_other not in name
    ]
    return set() if _is_taken_back(lower[length:], name, others) else set(begun)


def names_answer(text: str) -> bool:
    """Return True if a text has the words "the answer" or the like.

    >>> names_answer("No. The answer is unclear."), names_answer("No. It sits.")
    (True, False)
    """
    return _ANSWER.search(text.casefold()) is not None


def lists_options(text: str, options: Sequence[str]) -> bool:
    """Return True if a text repeats two options or more, each with its letter and text.

    >>> lists_options("(A) yes (B) no", ("Yes", "No")), lists_options("(A) yes", ("Yes", "No"))
    (True, False)
    """
    lower = text.casefold()
    listed = (
        re.search(rf"(?<!\w){letter.lower()}[.):]{{1,2}}\s{{0,3}}{re.escape(name)}(?!\w)", lower)
        for letter, name in options_by_letter(options)
        if name
    )
    return sum(1 for match in listed if match) > 1


def _is_taken_back(rest: str, name: str, others: Sequence[str]) -> bool:
    """Return True if the text after an option denies it, leaves it open, or names another.

    Args:
        rest: The text after the option, in lower case.
        name: The option, in lower case.
        others: The other options, in lower case.
    """
    sentence = _SENTENCE.match(rest)
    first = sentence[0] if sentence else ""
    sorry = _SORRY.match(rest, len(first))
    if _LEFT_OPEN.match(rest) or _CONDITION.search(first) or _IS_SUBJECT.match(first):
        return True
    said = _OTHERS_CANNOT.sub(" ", first) if name == "no" else first
    if says_unable(said) or (sorry and says_unable(sorry[0])):
        return True
    if denies_soon(rest.lstrip(" ,;:—–-")) and not DENIES.search(name):
        return True
    if name == "yes" and denied_after(_NO_DOUBT.sub("", first), whole=True):
        return True
    if name in ("yes", "no"):
        turns = "|".join(map(re.escape, others))
        return re.search(rf"{_TURNS}(?:{turns})\b(?! doubt)", rest) is not None
    if _TAKEN_BACK.search(first):
        return True
    for name_of_other in others:
        known = re.escape(name_of_other)
        rest = re.sub(rf"{_UNWANTED}{known}(?!\w)", " ", rest)
        if re.search(rf"(?<!\w){known}(?!\w)", rest):
            return True
    return False


def ended_with(text: str, options: Sequence[str]) -> set[str]:
    """Return the letter of the option that ends the last sentence with its letter in brackets.

    >>> ended_with("The one that barks is the dog (B).", ("the cat", "the dog"))
    {'B'}
    """
    lower = re.split(r"[.!?]\s|\n", text.rstrip(" .*\n").casefold())[-1]
    for letter, name in options_by_letter(options):
        ending = f"{name} ({letter.lower()})"
        before = lower.removesuffix(ending)
        if name and before != lower and _POINTED.search(before) and not _UNPOINTED.search(before):
            return {letter}
    return set()


def is_denied(rest: str, options: Sequence[str]) -> bool:
    """Return True if a text begins with an option's text and then denies it (" is not")."""
    begins = next((name for name in options if name and rest.strip().startswith(name)), None)
    return begins is not None and _NOT_SO.match(rest.strip(), len(begins)) is not None


def denies_itself(rest: str, options: Sequence[str]) -> bool:
    """Return True if the text after a letter denies it; an option's own text may hold a denial."""
    text = rest.lstrip(" .:)*_")
    if _IS_NO_ANSWER.match(text):
        return True
    return denies_soon(rest) and not any(name and text.startswith(name) for name in options)


def is_next(text: str, line: re.Match[str]) -> bool:
    """Return True if a line's letter is the mark of a list's next item, whose text was cut off."""
    letter = line[1].strip("*_`\"'()[]{}$ ")[:1]
    mark = "(?m:^[^\\S\\n]{{0,20}}[*(]{{0,3}}{}[.:)])"
    before = text[: line.start()]
    is_mark = re.search(mark.format(chr(ord(letter) - 1)), before)
    return is_mark is not None and re.search(mark.format(letter), before) is None
