"""Reader of the number that a response states.

`stated_number` reads signs (also `−`, `–`, "minus"), decimals (`.5`; `1,5`, a comma with other than
three digits), thousands (`1,500`, `1'500`, `1 500` with a no-break space), exponents (`1e-3`,
`1.5 × 10^3`), other scripts' digits and English words ("twenty-one"). Lengths, areas and times are
converted to the unit that the question asks for; if it asks for none, units are ignored. A number
is stated if it begins a sentence or follows a word such as "is", "there are", "=". Several numbers
count as one if it is their sum and says so ("2 red and 3 blue, 5 in total", "3 + 2 = 5"). A
ParseError are other numbers, fractions, ratios, bounds ("more than 3"), ranges, wrong sums,
denials, and responses that say that they know no answer.
"""

import math
import re
from collections.abc import Collection
from itertools import islice

from harness.errors import ParseError
from harness.stated.asked_things import names_another, says_another_state, without_others
from harness.stated.corrections import is_asked, own_turn
from harness.stated.counters import without_asked
from harness.stated.derived import derived_clause, is_of_question
from harness.stated.kinds_of_things import (
    are_of_kind,
    are_other_things,
    asked_things,
    of_asked_kind,
)
from harness.stated.labelled import of_asked_label, without_products
from harness.stated.languages import certain, unmarked
from harness.stated.left_out_group import counts_left_out_group
from harness.stated.markup import BOX, is_cut_off, plain
from harness.stated.numerals import numerals
from harness.stated.parts import without_parts
from harness.stated.quantities import measures_another
from harness.stated.question_words import without_question_words
from harness.stated.refusals import ABOUT_ANSWER, denies, says_unable
from harness.stated.respelt import respelt
from harness.stated.roles import is_of_another_role
from harness.stated.scales import asked_scale, in_scale
from harness.stated.sentence_values import MOST, THE_NUMBER, sentence_before, value_of
from harness.stated.sums import WRONG, checked, without_marks
from harness.stated.units import asked_unit, in_unit, named_unit, without_other_measures

_STATED = re.compile(  # "the answer is", "\boxed{", "答案是"
    r"(?P<boxed>\\boxed\s*\{)|(?P<key>(?i:[\"'](?:final_?)?answer[\"'])\s*:)"
    r"|(?i:\bI['’]d go with\b|(?:\A\W*|\bbut )I['’]d say\b)"
    r"|(?i:\b(?:answer|result)\b[*_`]{0,3}(?:\sto\s(?:this|the|your)\squestion)?\s*"
    r"(?:(?:is|would be|should be|equals)\b|[:=]))"
    rf"|答案\s*(?:应该|应)?(?:是|为|：|:)|{re.escape(BOX)}"
)
_HOW_FOUND = re.compile(
    r"(?i:\b(?:got|get|found|find|reach(?:ed)?|derived?|calculated?|explains?|arrived? at)\s"
    r"(?:the|this|that|my)\s)\Z"
)
"""Words before "answer:" that lead to its reasons."""
_NOT_BLANK = re.compile(r"\S|\Z")
_SENTENCE = re.compile(r"(?:[^\n;；。.!?]|[.!?](?!\s|\Z)){0,400}")
_IN_BRACES = re.compile(r"[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*")
_JSON_VALUE = re.compile(
    r"\s*(?:\"[^\"\n]{0,400}\"|\[[^\]\n]{0,400}\]|'[^'\n]{0,400}'|[^,}\n]{0,400})"
)
_CONCLUDES = re.compile(  # the beginning of a conclusion: "So", "In summary,"
    r"(?:\A|[.!?:]\s|\n)[^\w\n]{0,8}(?i:so|thus|hence|therefore|consequently|in (?:conclusion"
    r"|summary|short)|to (?:conclude|sum up|summari[sz]e))\b[,:]?(?=\s)"
)
_SO = re.compile(
    r",\s(?i:so|thus|hence|therefore)\s(?=(?i:the|there|that|this|it)\b|\d)"
    r"|[.,;]\s(?i:that(?:['’]s| is)|i\.e\.,?)\s(?=\d)"
)
_ONE_MORE = re.compile(r"(?i:\b(?:one more|another(?: one)?)\b)")
_THAT_MAKES = re.compile(
    r"(?i:(?:that|this|it) makes (?:it )?(?:a total of )?)\s{0,4}\d{1,9}\s{0,4}"
    r"(?i:in total)?[\s.!]{0,4}"
)
_ASKS_MOMENT = re.compile(r"(?i:\b(?:(?:what|which|how many) (?:seconds?|time)|when)\b)")
_KNOWN_SET = re.compile(r"(?i:\W*(?:the|these|those|both|all)\s+\d)")
_SUPPOSES = re.compile(r"(?i:\b(?:for example|for instance|e\.g\.),? (?:if|suppose|let|assum|say))")
_SOME_OF = re.compile(
    r"(?i:\b(?:most|some|many|few|several|half|none|neither"
    r"|(?:a|one) (?:quarter|third|fifth|tenth))"
    r" of (?:the[ms]e?|those|wh(?:om|ich)|it)\b(?P<said>[^.;:!?\n]*))"
)
_OF_ANY = frozenset(
    "are the and can you has have was were with that there this his her their its visible shown see"
    " seen image picture photo video scene left right front back background foreground top bottom"
    " middle center side".split()
)
"""Words of predicates that any things may share."""
_THE_ASKED = re.compile(
    r"(?:\A|[.!?]\s|\n)\W*(?i:the (?:missing|requested|unknown) (?:\w+ ){1,2}is)(?=\s)"
)
"""Words before a number that is the one asked for."""

_NONE = re.compile(
    r"(?:(?:(?:there (?:are|is)|(?:i|we|you) (?:can )?see) )?(?:no|zero|none of the)"
    r"|there (?:are(?: not|n['’]t)|is(?: not|n['’]t)) any|(?:i|we) (?:do not"
    r"|don['’]t) see any) ((?:[a-z-]+ ){0,2}?[a-z-]+)((?: [a-z-]+){0,12})\.?"
)
"""A whole response that says that there are none: "There are no people visible in the image."."""
_NONE_OF_THEM = re.compile(
    r"(?:none|zero|there (?:are|is)(?: none|n['’]t any| not any)(?: of them)?)"
    r"(?: (?:visible|present|here|at all|in (?:the|this) (?:image|picture|photo|video|scene)))*\.?"
)
"""A whole response that says that there are none, without the name of the things."""
_FIRST_ENDS = re.compile(r"[.;!](?=\s|\Z)|,\s(?=only\b|just\b)")
_ANYONE = re.compile(r"(?:some|every|any)(?:one|body)")
_ONLY = frozenset(("only", "just"))
_RESTRICTS_FIRST = re.compile(
    r"\b(?:but|however|although|though|except|actually|if|maybe|may|might|could|hidden|unless|wait)\b"
)
"""Words after a sentence that may change it."""
_OF_NONE = frozenset(
    "that are is in on the this visible present shown depicted"
    " image picture photo video scene frame".split()
)
"""Words behind the things in such a response, beside those of the question."""
_OTHERWISE = re.compile(
    r"\b(?:missing|absent|lack\w*|more|not|no|without|should|must|needs?|needed|required"
    r"|add(?:ed|ing)?|hidden)\b|n['’]t\b"
)
"""Words of questions that ask for what is not there, or hidden."""
_UNSEEN = re.compile(r"\b(?:behind|outside)\b")
"""Words of questions on what may be there and not be seen."""
_SEEN = re.compile(r"\bsee\b|visible|shown|depicted|image|picture|photo|video|scene|frame")


def stated_number(response: str, question: str = "") -> float:
    r"""Return the one number that a response states.

    If the response says which number is the answer ("the answer is", `\boxed{}`), that one counts,
    and the last such statement has to be a number; otherwise the number has to be the only one. A
    number may be repeated in a conclusion or in brackets.

    Args:
        response: The response after its thought.
        question: The question. The value is in the unit that it asks for, also in thousands or
            millions. Counts of other things than the asked ones do not count.

    Raises:
        ParseError: the response states none, several, or one in an unknown spelling.

    >>> [stated_number(text) for text in ("about 1,250.5 m^2", "−3m", ".5", "1e-3", "Not 3 but 4")]
    [1250.5, -3.0, 0.5, 0.001, 4.0]
    >>> stated_number("2 red and 3 blue chairs, so 5 in total")
    5.0
    """
    if _says_none(plain(response), question):
        return 0.0
    if not stated_segments(plain(response)) and counts_left_out_group(plain(response), question):
        raise ParseError(
            "response", expected="the number of the asked group", found=repr(response.strip()[:60])
        )
    unit, text = asked_unit(question), plain(response)
    text = derived_clause(text, question) or text
    text = respelt(without_products(of_asked_label(text, question), question), question)
    text = text if unit else of_asked_kind(text, question)
    text = certain(without_asked(text, unmarked(question)), question)
    if scale := asked_scale(question):
        text = in_scale(text, scale)
    things = {part[-1] for part in asked_things(question)}
    text = without_parts(without_others(text, question), question, things)
    if unit:
        text = in_unit(text, unit)
    if named := unit or named_unit(question):
        text = without_other_measures(text, named)
    text = without_question_words(text, question)
    segments = stated_segments(text)
    if segments and not any(numerals(segments[-1])):
        segments = [""]
    concluded = conclusion(text) or (None if segments else _concluding_clause(text, question))
    if (
        _SUPPOSES.search(text)
        or is_cut_off(own_turn(response))
        or names_another(text, question)
        or measures_another(text, question)
        or is_of_another_role(text, question)
        or _is_of_some(text, question, things)
        or (_ASKS_MOMENT.search(question) and says_another_state(text, question))
        or (not segments and not concluded and _denies_things(plain(response), things))
        or (not segments and says_unable(concluded or text))
    ):
        values = {math.nan}
    elif segments:
        values = {value_of(segment) for segment in segments}
        end = value_of(concluded or "")
        values |= {end} if math.isfinite(end) else set()
    else:
        values = {value_of(concluded or text)}
        if concluded and _contradicts(text, max(values)):
            values = {math.nan}
    if len(values) != 1 or not all(map(math.isfinite, values)):
        raise ParseError("response", expected="one number", found=repr(response.strip()[:60]))
    return values.pop()


def _says_none(text: str, question: str) -> bool:
    """Return True for a sentence that there are none of the things whose number is asked for."""
    text, rest = _first_sentence(text, question)
    none = _NONE.fullmatch(text)
    asked = re.findall(r"\b(?:how many|number of) ([^.?!,;:]+)", question.casefold())
    is_unseen = _UNSEEN.search(question.casefold()) and _SEEN.search(text.casefold())
    if is_unseen or _OTHERWISE.search(question.casefold()):
        return False
    if not rest and len(asked) == 1 and _NONE_OF_THEM.fullmatch(text):
        return True
    if none is None or len(asked) != 1 or not re.match(rf"{re.escape(none[1])}\b", asked[0]):
        return False
    of_asked, of_none = (
        [word for word in words.split() if word not in _OF_NONE]
        for words in (asked[0], f"{none[1]} {none[2]}")
    )
    is_whole = of_none in (of_asked, none[1].split())
    return is_whole and not {"and", "or"} & {*of_asked}


def _first_sentence(text: str, question: str) -> tuple[str, str]:
    """Return the first sentence of a text in small letters, and the rest that is about the asked.

    The rest is "" if it has no number but of other known things: "; only two dogs" for cats.
    """
    text = text.strip().casefold()
    end = _FIRST_ENDS.search(text)
    if end is None or _RESTRICTS_FIRST.search(text, end.end()):
        return text, ""
    first, rest = text[: end.start()].strip(), text[end.end() :]
    counts = numerals(of_asked_kind(rest, question))
    is_counted = any(math.isfinite(count.value) for count in counts)
    things = " ".join(part[-1] for part in asked_things(question))
    words = re.findall(r"[a-z]+", rest)
    is_akin = any(are_of_kind(word, things) or _ANYONE.fullmatch(word) for word in words)
    is_other = any(word in _ONLY or are_other_things(word, things) for word in words)
    return (text, rest) if is_counted or is_akin or (words and not is_other) else (first, "")


def _is_of_some(text: str, question: str, things: Collection[str]) -> bool:
    """Return True if a text says of most or none of its things what a question asks of them."""
    part = _SOME_OF.search(text)
    said = re.findall(r"\w{3,}", part["said"].casefold()) if part else []
    asked = re.split("|".join(map(re.escape, things)) or r"\Z", question.casefold())[-1]
    words = {word[:4] for word in said if word not in _OF_ANY}
    return any(re.search(rf"\b{re.escape(word)}", asked) for word in words)


def _denies_things(text: str, things: Collection[str]) -> bool:
    """Return True if a text denies the asked things before its first number: "no dogs, but 2"."""
    first = next((number.start for number in numerals(text) if number.value), 0)
    nouns = "|".join(map(re.escape, things))
    denial = (
        r"(?:\b(?:no|none of the|not any|(?:hardly|barely) any)|n['’]t any)\s"
        r"(?:(?!other|more|additional|further|empty|hidden)[a-z-]+\s){0,2}?"
    )
    denial += rf"(?:{nouns})\b"
    return bool(nouns) and re.search(denial, text[:first].casefold()) is not None


def stated_segments(text: str) -> list[str]:
    """Return the text after each "the answer is" or the like, to the end of its sentence.

    It is empty if the statement is denied or is a question.
    """
    segments = []
    for statement in _STATED.finditer(text):
        pattern = _JSON_VALUE if statement["key"] else _SENTENCE
        rest = pattern.match(text, _NOT_BLANK.search(text, statement.end()).start())  # type: ignore[union-attr]  # always found
        segment = rest[0] if rest else ""
        if statement["boxed"]:
            segment = _IN_BRACES.match(segment)[0]  # type: ignore[index]  # always a match
        before = text[max(0, statement.start() - 200) : statement.start()]
        if denies(before) or is_asked(text, statement.end()):
            segment = ""
        if not _HOW_FOUND.search(before) and not ABOUT_ANSWER.match(segment):
            segments.append(segment)
    return segments


def conclusion(text: str) -> str | None:
    """Return the last sentence with numbers if it begins as a conclusion; None: it does not.

    >>> conclusion("There are 2 rows of 3. So there are 6 chairs."), conclusion("So 6. Or 7.")
    (' there are 6 chairs', None)
    """
    for opening in reversed(list(_CONCLUDES.finditer(text))):
        segment = _sentence_from(text, opening.end())
        if any(numerals(segment)) or (denies(segment) and re.search(r"\d", segment)):
            rest = text[text.index(segment, opening.end()) + len(segment) :].lstrip(" .*\n")
            again = THE_NUMBER.match(rest) and value_of(rest) == value_of(segment)
            is_last = again or not any(numerals(rest))
            return segment if is_last and not _KNOWN_SET.match(segment) else None
    return None


def _concluding_clause(text: str, question: str = "") -> str | None:
    """Return the last clause of a text if it concludes from the numbers before it; None: not.

    It does if its number is the sum of those in its sentence, or the total after "one more".

    >>> _concluding_clause("There are 2 dogs and 1 cat, so there are 3 animals.")
    'there are 3 animals.'
    >>> _concluding_clause("There are 2 dogs and 1 cat, so there are 4 animals.")
    """
    opening = next(iter(reversed(list(_SO.finditer(text)))), None)
    if opening is None:
        return None
    clause, before = text[opening.end() :], sentence_before(text, opening.start())
    values = [number.value for number in islice(numerals(clause), 2)]
    parts = [number.value for number in islice(numerals(before), MOST)]
    is_sum = len(parts) > 1 and len(values) == 1 and math.isclose(sum(parts), values[0])
    is_more = bool(_ONE_MORE.search(before)) and _THAT_MAKES.fullmatch(clause) is not None
    is_asked = not question or is_of_question(text[: opening.start()], clause, question)
    return clause if is_more or (is_sum and is_asked) else None


def _sentence_from(text: str, start: int) -> str:
    """Return the sentence at a place, and the line after it if the sentence ends with a colon."""
    sentence = _SENTENCE.match(text, start)
    end = sentence.end() if sentence else start
    if text[start:end].rstrip(" *_").endswith(":"):
        following = _SENTENCE.match(text, _NOT_BLANK.search(text, end).start())  # type: ignore[union-attr]  # always found
        end = following.end() if following else end
    return text[start:end]


def _contradicts(text: str, value: float) -> bool:
    """Return True if a text contradicts a value: by a wrong sum, a list's length, a statement."""
    right = checked(text)
    _, listed = without_marks(right)
    is_total = listed and re.search(r"(?i:\btotal|\ball\b)", text)
    asked = {
        value_of(_sentence_from(right, opening.end())) for opening in _THE_ASKED.finditer(right)
    }
    return WRONG in right or bool(is_total and listed != value) or bool(asked - {value})
