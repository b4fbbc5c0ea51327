"""The number that a response states.

Read: signs (also `−`, `–`, "minus"), decimals (`.5`; `1,5`, a comma with other than three digits),
thousands (`1,500`, `1'500`, `1 500` with a no-break space), exponents (`1e-3`, `1.5 × 10^3`), other
scripts' digits, English words ("twenty-one"). Lengths, areas and times are converted to the unit
that the question asks for; without one, units are passed over. A number begins a sentence or
follows a word that states it ("is", "there are", "="). Several numbers are one where it is their
sum and says so ("2 red and 3 blue, 5 in total", "3 + 2 = 5"). Any other number is a failure, and so
are fractions, ratios, bounds ("more than 3"), ranges, sums that are not right, what
is denied, and what says that it knows no answer.
"""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from harness.errors import ParseError
from harness.stated.corrections import is_asked, own_turn
from harness.stated.markup import BOX, is_cut_off, plain
from harness.stated.numerals import Numeral, numerals
from harness.stated.refusals import ABOUT_ANSWER, denied_after, denies, says_unable
from harness.stated.sums import WRONG, checked, without_marks
from harness.stated.units import asked_unit, in_unit

MOST = 40
"""Numbers of a sentence that are looked at."""

_STATED = re.compile(
    r"(?P<boxed>\\boxed\s*\{)|(?P<key>(?i:[\"'](?:final_?)?answer[\"'])\s*:)"
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

_STATES = (
    r"(?i:[:=≈→]|\b(?:is|are|was|were|be|equals?|has|have|contains?|counts?|counted|see|say|guess"
    r"|estimated?|measures?|gives?|gets?|totals?|found|appears?|like|moved|travel(?:s|l?ed)|at|but"
    r"|accounts? for|(?:is|are|was|were) (?:earning|paying)|earn(?:s|ed)?"
    r"|(?:indicates?|states?|suggests?|shows?) that"
    r"|so|thus|hence|therefore|go with|reads?|shows?|shown|depicts?|makes?|making|sum|altogether"
    r"|ist|sind|gibt|est|sont|y a|es|son|hay|sono)\b|['’](?:s|re)\b|[是为為有共は총]|全部で|合計)"
)
_FILLS = (
    r"(?i:[\s*_`\"'“”$€£₹¥#~≈(\[{:=,]|\\(?:boxed|left|displaystyle|mathbf|[(\[])?"
    r"|\b(?:about|approximately|approx\.?|roughly|around|circa|ca\.|exactly|precisely|only|just"
    r"|likely|probably|maybe|perhaps|nearly|almost|close to|in total|equal to|at|to|of|the|yes"
    r"|ok(?:ay)?|sure|an?|estimated|i (?:think|guess|believe)"
    r"|(?:an? |the )?(?:(?:total )?(?:number|count|distance|length|height|width|depth|size|area"
    r"|volume|speed)|total|sum|value|estimate) of|(?:(?:the |my )?final )?answer)(?!\w)"
    r"|大约|大概|约|約)"
)
_OPENS = (
    r"(?i:(?:according to|after|upon|by|based on|looking|judging|considering|given|in|from|at)\b"
    r"[^.,:;!?\d]{0,80}[,:])"
)
_LEADS = re.compile(rf"(?:\A(?:{_FILLS}*{_OPENS})?|{_STATES}){_FILLS}*\Z")
_SENTENCE_END = re.compile(r"[.!?;]\s|[\n。；！？]")
_ABOUT_INPUT = re.compile(r"(?i:[-\s]*(?:frames?|turns?|steps?|tokens?|bytes|[kmg]i?b)\b)")
_OF_INPUT = re.compile(
    r"\W*(?i:(?:the|my|this|our|maximum)\s+){0,2}(?i:video|clip|footage|knowledge|context|model)\b"
    r"(?:\s+\w+)?\s*(?i:is|lasts|was|[=:])"
)
_MAXIMUM = re.compile(r"(?i:\b(?:max|min)(?:imum)?[.:=\s]*)\Z")
_SETS = re.compile(r"(?i:\bset(?:ting)?\b[^.;]{0,40}(?:equal to|=|to)\s*)\Z")
_NAMED = (
    r"(?:frames?|images?|rooms?|videos?|views?|steps?|figures?|scenes?|cameras?|shots?|pages?"
    r"|ids?|ind(?:ex|ices)|idx|questions?|labels?|turns?|rounds?|lines?|timestamps?|fps|seed)"
)
_NAME = re.compile(rf"(?i:\b{_NAMED}(?:\s#?|\s?[:=]\s?))\Z")
_KEY = re.compile(r"[\"']([^\"'\n]{1,60})[\"']\s?:[\s\"']{0,9}\Z")
_ANY_KEY = re.compile(r"[\"']\s?:")
_OF_INPUT_KEY = re.compile(
    rf"(?i:(?:\w{{0,20}}_)?{_NAMED}(?:_(?:id|idx|index|number|no))?|year|time|scores?|rank|class(?:_id)?"
    r"|category(?:_id)?|[xy](?:[12]|_?m(?:in|ax))?)"
)
_OF_ANSWER_KEY = re.compile(
    r"(?i:(?:\w{0,40}[_ ])?(?:answer|result|count|number|total|value|sum|estimate|prediction|output"
    r"|response|distance|length|height|width|depth|size|area|volume|speed)(?:_\w{1,40})?"
    r"|num_\w{1,40})"
)
_QUANTITY = (
    r"(?:value|distance|length|height|depth|area|volume|speed|velocity|position|temperature|amount"
    r"|number|cost|price)s?"
)
_CONDITION = re.compile(
    rf"(?i:(?:\b(?:the (?:\w+ ){{0,2}}|a ){_QUANTITY}(?: of (?:the )?\S+)?"
    r"|\b(?:find|determine|calculate|compute|evaluate|need|know) (?:the )?\S+)\s"
    r"(?:at\s|(?:at|when|where|for|if|with)\s[*$\\(]{0,3}(?:the )?(?:[a-z]|input|time)[*$]{0,3}"
    r"\s?(?:=|≈|(?:is|equals)\b)(?:\sequal to)?)\s*(?:about\s)?)\Z"
)
"""Words before a number that is a condition: where or when something holds."""
_HAS_QUANTITY = re.compile(r"(?i:\b(?:has|had|have) an? (?:[\w-]+ ){1,3}of\s+[$€£]?)\Z")
_SENTENCE_LAST = re.compile(r"[^.!?;,:\n]{0,40}\.?\s*(?:\Z|This\b)")
_TIME = re.compile(r"(?i:\b(?:at|around|by)\s)\Z")
_OPTION = re.compile(r"\A\W*[A-Z][.:)]\s*\Z")  # C. 3

_TOTAL_BEFORE = re.compile(
    r"(?i:\b(?:total|sum|altogether|in all|overall)\b[^.\d]{0,20}|→|=>)\s?\Z"
)
_TOTAL_AFTER = re.compile(
    r"(?i:\s?(?:[^\W\d]+\s){0,3}(?:in total|in all|altogether|total|overall)\b)"
)
_PARTS_FOLLOW = re.compile(r"[:(（—]|(?i:\b(?:because|since|as)\b)")
_SUBSET = re.compile(r"(?i:\s*of\s+(?:which|them|these|those|whom)\b)")
_OF_WHICH = re.compile(r"(?i:\b(?:of (?:which|whom|them)|including)\s*)\Z")
_CHANGED = re.compile(
    r"(?i:\s?(?:more|fewer|less|o['’]clock)\b|\s(?:by one|another|after (?:an)?other)\b"
    r"|\s?times (?:as|more|fewer|less|larger|bigger|smaller|taller|longer|wider|faster)\b"
    r"|[^.;\n]{0,60}\b(?:excluding|not (?:counting|including)|plus|aside from|apart from|besides"
    r"|except|and (?:another|one more|one other))\b)"
)
"""Words after a number that make it another, or a part."""
_AND = re.compile(r"(?i:\band\s*)\Z")
_CONCLUDES = re.compile(
    r"(?:\A|[.!?:]\s|\n)[^\w\n]{0,8}(?i:so|thus|hence|therefore|consequently|in (?:conclusion"
    r"|summary|short)|to (?:conclude|sum up|summari[sz]e))\b[,:]?(?=\s)"
)
_SO = re.compile(r",\s(?i:so|thus|hence|therefore)\s(?=(?i:the|there|that|this|it)\b)")
_ONE_MORE = re.compile(r"(?i:\b(?:one more|another(?: one)?)\b)")
_THAT_MAKES = re.compile(
    r"(?i:(?:that|this|it) makes (?:it )?(?:a total of )?)\s{0,4}\d{1,9}\s{0,4}"
    r"(?i:in total)?[\s.!]{0,4}"
)
_KNOWN_SET = re.compile(r"(?i:\W*(?:the|these|those|both|all)\s+\d)")
_IS_NOT = re.compile(r"(?i:[^.!?\n]{0,80}\b(?:is|are|was|were)(?:\s+not\b|n['’]t))")
_SUPPOSES = re.compile(r"(?i:\b(?:for example|for instance|e\.g\.),? (?:if|suppose|let|assum|say))")
_THE_NUMBER = re.compile(
    r"(?i:\W*the (?:\w+ ){0,2}(?:answer|blank|mean|average|number|count|sum|total|difference"
    r"|distance|value)\b)"
)
_THE_ASKED = re.compile(
    r"(?:\A|[.!?]\s|\n)\W*(?i:the (?:missing|requested|unknown) (?:\w+ ){1,2}is)(?=\s)"
)
"""Words before a number that is the one asked for."""
_COPULA = r"(?:\b(?:is|are|was|were|equals)\b|=)"
_OF_SUBJECT = re.compile(
    rf"(?i:(?:{_OPENS})?\W*(?:the|a)\s(?:\w+\s){{0,2}}(?:number|count|sum|total|difference|gap"
    r"|distance|length|height|width|depth|size|area|volume|speed|value|average|mean|median|ratio"
    r"|percentage|probability|accuracy|cost|price|age)\b"
    rf"(?:(?!{_COPULA}|\bor\b).){{1,160}}{_COPULA}{_FILLS}*)"
)
"""Words before the value of a quantity; numbers within them say which quantity is measured."""
_RESTRICTS = re.compile(
    r"(?i:\b(?:with|that|which|whose|where|who|having)\b[^.;,:\n]{0,60}\b(?:more|less|fewer|greater"
    r"|higher|lower|larger|smaller|taller|longer|shorter|bigger|older|younger|above|below|over"
    r"|under|exceed(?:s|ing)?|at (?:least|most))(?: than)?(?: or equal to)?\s*[$€£]?)\Z"
)
"""What stands before a bound that says which things were counted."""
_AGAIN = re.compile(
    r"[(=]\s{0,3}\Z|(?i:\b(?:because|since|so|thus|hence|therefore|total|altogether|overall|answer"
    r"|namely|that is|in (?:short|summary|conclusion))\b|\bi\.e\.)"
)
"""What stands between a number and the same number said again: a conclusion or a bracket."""
_ALONE = re.compile(
    r"\W{0,3}(?i:[cmk]?m[²2]?|ft|feet|foot|inch(?:es)?|(?:square |sq\.? )?met(?:er|re)s?|s"
    r"|sec(?:ond)?s?|minutes?|degrees?)?\W{0,3}(?:[.!]\s|\n)"
)
"""What follows a number that is the first sentence of a response by itself."""
_EXCEPT = re.compile(
    r"(?i:\b(?:but|except|without|excluding|though|although|however|only|minus)\b)"
)

_HOW_MANY = re.compile(r"\b(?:how many|(?:number|count) of|count)\b((?:\s[a-z-]{1,20}){1,4})")
_THINGS = re.compile(r"\b(?!(?:this|its|has|was|is|does|remains|units)\b)[a-z]{2,20}s\b")
"""Things in the plural."""
_AFTER_NUMBER = re.compile(r"(?:\s[a-z-]{1,20}){1,3}")


class _Found(NamedTuple):
    numeral: Numeral
    is_stated: bool
    """False of a number that stands in a sentence about something else."""

    @property
    def value(self) -> float:
        return self.numeral.value


def stated_number(response: str, question: str = "") -> float:
    r"""Return the one number that a response states.

    Where it says which number is the answer ("the answer is", `\boxed{}`), that one counts, and the
    last such statement has to be a number; otherwise it has to be the only one. The same number
    twice is one where the second is a conclusion, or says the first again in brackets.

    Args:
        response: The response after its thought.
        question: The question. The value is in the unit that it asks for. A conclusion that counts
            things it does not ask for is no answer, where the response counts those that it does:
            "7 chairs. So there are 28 legs."

    Raises:
        ParseError: it states none, several, or one in a spelling that is not known.

    >>> [stated_number(text) for text in ("about 1,250.5 m^2", "−3m", ".5", "1e-3", "Not 3 but 4")]
    [1250.5, -3.0, 0.5, 0.001, 4.0]
    >>> stated_number("2 red and 3 blue chairs, so 5 in total")
    5.0
    """
    text = plain(response)
    if unit := asked_unit(question):
        text = in_unit(text, unit)
    segments = stated_segments(text)
    if segments and not any(numerals(segments[-1])):
        segments = [""]
    concluded = conclusion(text) or (None if segments else _concluding_clause(text))
    if (
        _SUPPOSES.search(text)
        or is_cut_off(own_turn(response))
        or (not segments and says_unable(concluded or text))
    ):
        values = {math.nan}
    elif segments:
        values = {_value_of(segment) for segment in segments}
        end = _value_of(concluded or "")
        values |= {end} if math.isfinite(end) else set()
    else:
        values = {_value_of(concluded or text)}
        if concluded and (
            _contradicts(text, max(values)) or _counts_others(text, concluded, question)
        ):
            values = {math.nan}
    if len(values) != 1 or not all(map(math.isfinite, values)):
        raise ParseError("response", expected="one number", found=repr(response.strip()[:60]))
    return values.pop()


def stated_segments(text: str) -> list[str]:
    """Return what follows each statement of an answer, to the end of its sentence.

    A statement that is denied or left open is empty: it states no value.
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
    """Return the last sentence with numbers where it begins as a conclusion does; None elsewhere.

    >>> conclusion("There are 2 rows of 3. So there are 6 chairs."), conclusion("So 6. Or 7.")
    (' there are 6 chairs', None)
    """
    for opening in reversed(list(_CONCLUDES.finditer(text))):
        segment = _sentence_from(text, opening.end())
        if any(numerals(segment)) or (denies(segment) and re.search(r"\d", segment)):
            rest = text[text.index(segment, opening.end()) + len(segment) :].lstrip(" .*\n")
            again = _THE_NUMBER.match(rest) and _value_of(rest) == _value_of(segment)
            is_last = again or not any(numerals(rest))
            return segment if is_last and not _KNOWN_SET.match(segment) else None
    return None


def _concluding_clause(text: str) -> str | None:
    """Return the clause that ends a text with the sum of its sentence's numbers, or with what one
    thing more makes; None elsewhere.

    >>> _concluding_clause("There are 2 dogs and 1 cat, so there are 3 animals.")
    'there are 3 animals.'
    >>> _concluding_clause("There are 2 dogs and 1 cat, so there are 4 animals.")
    """
    opening = next(iter(reversed(list(_SO.finditer(text)))), None)
    if opening is None:
        return None
    clause, before = text[opening.end() :], _sentence_before(text, opening.start())
    values = [number.value for number in islice(numerals(clause), 2)]
    parts = [number.value for number in islice(numerals(before), MOST)]
    is_sum = len(parts) > 1 and len(values) == 1 and math.isclose(sum(parts), values[0])
    is_more = bool(_ONE_MORE.search(before)) and _THAT_MAKES.fullmatch(clause) is not None
    return clause if is_sum or is_more else None


def _sentence_from(text: str, start: int) -> str:
    """Return a sentence from its start, with the line after it where it ends with a colon."""
    sentence = _SENTENCE.match(text, start)
    end = sentence.end() if sentence else start
    if text[start:end].rstrip(" *_").endswith(":"):
        following = _SENTENCE.match(text, _NOT_BLANK.search(text, end).start())  # type: ignore[union-attr]  # always found
        end = following.end() if following else end
    return text[start:end]


def _contradicts(text: str, value: float) -> bool:
    """Return True if a sum in a text is not right, or a list has not as many lines as it says."""
    right = checked(text)
    _, listed = without_marks(right)
    is_total = listed and re.search(r"(?i:\btotal|\ball\b)", text)
    asked = {
        _value_of(_sentence_from(right, opening.end())) for opening in _THE_ASKED.finditer(right)
    }
    return WRONG in right or bool(is_total and listed != value) or bool(asked - {value})


def _counts_others(text: str, concluded: str, question: str) -> bool:
    """Return True if a conclusion counts what is not asked, and a text before it what is."""
    lower = question.casefold()
    asked = {word for phrase in _HOW_MANY.findall(lower) for word in _THINGS.findall(phrase)}
    counted = set(_counted(concluded.casefold()))
    before = set(_counted(text[: text.rindex(concluded)].casefold()))
    return bool(counted and before & asked and not any(word in lower for word in counted))


def _counted(text: str) -> Iterator[str]:
    """Yield the things in the plural that follow numbers of a text, or "number of"."""
    for words in _HOW_MANY.findall(text):
        yield from _THINGS.findall(words)[:1]
    for number in islice(numerals(text), MOST):
        following = _AFTER_NUMBER.match(text, number.end)
        if following and (things := _THINGS.findall(following[0])):
            yield things[-1]


def _value_of(text: str) -> float:
    """Return the value of a text, not a number where it states none or several."""
    text, listed = without_marks(checked(text))
    numbers = _numbers(text)
    first = numbers[0].numeral if numbers else None
    numbers = numbers[:1] + [
        number for number in numbers[1:] if not _is_subset(text, first, number.numeral)
    ]
    numbers = numbers[-1:] if _is_of_subject(text, numbers) else numbers
    values = {number.value for number in numbers}
    if (
        len(numbers) == MOST
        or any(map(math.isnan, values))
        or not any(number.is_stated for number in numbers)
    ):
        return math.nan
    if len(values) > 1 or _is_list(text, numbers):
        return _total(text, numbers)
    (value,) = values
    is_total = any(_says_total(text, number.numeral) for number in numbers)
    return math.nan if listed and is_total and listed != value else value


def _numbers(text: str) -> list[_Found]:
    """Return the numbers of a text; names and times of the input are left out."""
    numbers: list[_Found] = []
    for number in islice(numerals(text), MOST):
        value, start, end, is_clock = number
        before = text[max(0, start - 40) : start]
        if _NAME.search(before) or (is_clock and _TIME.search(before)):
            continue
        if numbers and numbers[0].is_stated and _RESTRICTS.search(_sentence_before(text, start)):
            continue
        if (
            is_clock
            or _CHANGED.match(text, end)
            or _OPTION.match(text[:start])
            or _is_denied(text, start, end)
            or (_IS_NOT.match(text, end) and _THE_NUMBER.match(_sentence_before(text, start)))
        ):
            value = math.nan
        numbers.append(_Found(number._replace(value=value), _states(text, start, end)))
    return numbers


def _is_subset(text: str, first: Numeral | None, number: Numeral) -> bool:
    """Return True of a number of some of the things that the first number counts."""
    between = "" if first is None else text[first.end : number.start]
    if first is None or _EXCEPT.search(between) or _AND.search(between):
        return False
    return bool(_SUBSET.match(text, number.end) or _OF_WHICH.search(text[: number.start]))


def _is_of_subject(text: str, numbers: Sequence[_Found]) -> bool:
    """Return True if the last number is stated of a subject that the others stand in."""
    *others, last = numbers or [_Found(Numeral(math.nan, 0, 0), False)]
    sentence = _sentence_before(text, last.numeral.start)
    begin = last.numeral.start - len(sentence)
    return bool(
        others
        and last.is_stated
        and all(number.numeral.start >= begin for number in others)
        and _OF_SUBJECT.fullmatch(sentence)
    )


def _is_list(text: str, numbers: Sequence[_Found]) -> bool:
    """Return True if numbers count one thing each, such as "3 on the left and 3 on the right"."""
    places = [number.numeral for number in numbers]
    gaps = [text[left.end : right.start] for left, right in pairwise(places)]
    if gaps and not re.search(r"\w", text[: places[0].start]) and _ALONE.match(gaps[0]):
        gaps = gaps[1:]
    return any(not _AGAIN.search(gap) for gap in gaps)


def _says_total(text: str, number: Numeral) -> bool:
    return bool(_TOTAL_BEFORE.search(text[: number.start]) or _TOTAL_AFTER.match(text, number.end))


def _total(text: str, numbers: Sequence[_Found]) -> float:
    """Return the number that says that it is the sum of the others; not a number without one."""
    totals = {number.value for number in numbers if _says_total(text, number.numeral)}
    first, second = (number.numeral for number in numbers[:2])
    follow = len(numbers) > 2 and numbers[0].is_stated
    if not totals and follow and _PARTS_FOLLOW.search(text[first.end : second.start]):
        totals = {first.value}
    if len(totals) != 1:
        return math.nan
    total = totals.pop()
    if numbers[-1].value != total and _THE_NUMBER.match(
        _sentence_before(text, numbers[-1].numeral.start)
    ):
        return math.nan
    parts = [number.value for number in numbers if number.value != total]
    return total if math.isclose(sum(parts), total) else math.nan


def _is_denied(text: str, start: int, end: int) -> bool:
    """Return True if the words around a number, from start to end, deny it."""
    sentence = _sentence_before(text, start)
    opens = not re.search(r"\w", sentence)
    return denies(sentence) or (opens and denied_after(text[end : end + 200]))


def _states(text: str, start: int, end: int) -> bool:
    """Return True if a number begins a sentence or follows a word that states it."""
    sentence = _sentence_before(text, start)
    if any(pattern.search(sentence) for pattern in (_MAXIMUM, _SETS, _CONDITION)):
        return False
    has_quantity = _HAS_QUANTITY.search(sentence) and _SENTENCE_LAST.match(text, end)
    if not (has_quantity or _LEADS.search(sentence)) or is_asked(text, end):
        return False
    if _OF_INPUT.match(sentence) or _is_of_another_key(text, start):
        return False
    about = _ABOUT_INPUT.match(text, end)
    return about is None or not (
        re.search(r"\w", sentence) or re.search(r"\w", text[about.end() :])
    )


def _is_of_another_key(text: str, start: int) -> bool:
    """Return True if a number stands under a key of JSON that is not one of an answer.

    A key alone, such as `{"chairs": 3}`, says what is counted.
    """
    key = _KEY.search(text[max(0, start - 80) : start])
    if key is None or _OF_INPUT_KEY.fullmatch(key[1]):
        return key is not None
    return _OF_ANSWER_KEY.fullmatch(key[1]) is None and len(_ANY_KEY.findall(text)) > 1


def _sentence_before(text: str, start: int) -> str:
    return _SENTENCE_END.split(text[max(0, start - 200) : start])[-1]
