"""Reader of the value of a text without "the answer is": its one number, or its stated total.

`value_of` finds the numbers, drops those of the input ("8 frames"), conditions and subsets, and
returns the remaining one, or the one that is called the sum of the others; NaN if it is not
certain. `harness.stated.numbers` calls it.
"""

import math
import re
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import NamedTuple

from harness.stated.bounds import is_left_open
from harness.stated.corrections import is_asked
from harness.stated.numerals import Numeral, numerals
from harness.stated.refusals import denied_after, denies
from harness.stated.sums import checked, without_marks

MOST = 40
"""Most numbers of a text that are read."""
# Words before a number that state it.
_STATES = (
    r"(?i:[:=≈→]|\b(?:is|are|was|were|be|equals?|has|have|contains?|counts?|counted|see|say|guess"
    r"|estimated?|measures?|gives?|gets?|totals?|found|appears?|like|moved|travel(?:s|l?ed)|at|but"
    r"|accounts? for|separated by|identif(?:y|ied)|features?|spot(?:ted)?|observed?|detect(?:ed)?"
    r"|(?:hold|carry|wear|fly|rais|leav|show|follow)ing(?: up| on)?|holds?(?: up)?|followed by"
    r"|counting|costs?(?=\s[$€£¥])|amounts? to|adds? up to|achiev(?:es|ed)|obtains?|attains?"
    r"|reach(?:es|ed)"
    r"|(?:is|are|was|were) (?:earning|paying)"
    r"|earn(?:s|ed)?|lasts?|takes?|took|weighs?|covers?"
    r"|(?:indicates?|states?|suggests?|shows?) that"
    r"|so|thus|hence|therefore|go with|reads?|shows?|shown|depicts?|makes?|making|sum|altogether"
    r"|ist|sind|gibt|est|sont|y a|es|son|hay|sono|há|er zijn|det finns)\b|['’](?:s|re)\b"
    r"|[是为為有共见は총]|看到|全部で|合計|모두|전부)"
)
# Words and marks that may stand between these and the number.
_FILLS = (
    r"(?i:[\s*_`\"'“”‘’$€£₹¥#~≈(\[{:=,]|\\(?:boxed|left|displaystyle|mathbf|[(\[])?"
    r"|\b(?:about|approximately|approx\.?|roughly|around|circa|ca\.|exactly|precisely|only|just"
    r"|likely|probably|maybe|perhaps|nearly|almost|close to|in total|equal to|at|to|of|the|yes"
    r"|ok(?:ay)?|sure|usd|eur|rmb|gbp|an?|estimated|i (?:think|guess|believe)"
    r"|(?:(?:total )?(?:number|count|distance|length|height|width|depth|size|area"
    r"|volume|speed)|total|sum|value|estimate) of|(?:my )?(?:final )?answer)(?!\w)"
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
_SETS = re.compile(
    r"(?i:\b(?:set(?:ting)?|let(?!['’]s| me| us)|suppose|assum(?:e|ing)|substitut(?:e|ing))\b"
    r"(?:(?!\b(?:get|gets|find|obtain|yields?|gives?)\b)[^.;,]){0,40}(?:equal to|=|to)\s*)\Z"
)
_NAMED = (
    r"(?:frames?|images?|rooms?|videos?|views?|steps?|figures?|scenes?|cameras?|shots?|pages?"
    r"|ids?|ind(?:ex|ices)|idx|questions?|labels?|turns?|rounds?|lines?|timestamps?|fps|seed)"
)
_NAME = re.compile(
    rf"\b(?:Table|Figure|Fig\.|Section)\s\Z|(?i:\b{_NAMED}\s#?"
    rf"|(?<!the )(?<!this )\b{_NAMED}\s?[:=]\s?)\Z"
)
_KEY = re.compile(r"[\"']([^\"'\n]{1,60})[\"']\s?:[\s\"']{0,9}\Z")  # "count": 3
_ANY_KEY = re.compile(r"[\"']\s?:")
_OF_INPUT_KEY = re.compile(  # frame_id, year, x1: a key of JSON that holds no answer
    rf"(?i:(?:\w{{0,20}}_)?{_NAMED}(?:_(?:id|idx|index|number|no))?|year|time|scores?|rank|class(?:_id)?"
    r"|category(?:_id)?|(?:not|wrong|previous|old|initial)_\w{1,40}|[xy](?:[12]|_?m(?:in|ax))?)"
)
_OF_ANSWER_KEY = re.compile(  # final_answer, num_chairs
    r"(?i:(?:\w{0,40}[_ ])?(?:answer|result|count|number|total|value|sum|estimate|prediction|output"
    r"|response|distance|length|height|width|depth|size|area|volume|speed)(?:_\w{1,40})?"
    r"|num_\w{1,40})"
)
_QUANTITY = (
    r"(?:value|distance|length|height|depth|area|volume|speed|velocity|position|temperature|amount"
    r"|number|cost|price)s?"
)
_CONDITION = re.compile(  # "the speed of it at t = 3", "find y when x is 3"
    rf"(?i:(?:\b(?:the (?:\w+ ){{0,2}}|a ){_QUANTITY}(?: of (?:the )?\S+)?"
    r"|\b(?:find|determine|calculate|compute|evaluate|need|know) (?:the )?\S+)\s"
    r"(?:at\s|(?:at|when|where|for|if|with)\s[*$\\(]{0,3}(?:the )?(?:[a-z]|input|time)[*$]{0,3}"
    r"\s?(?:=|≈|(?:is|equals)\b)(?:\sequal to)?)\s*(?:about\s)?)\Z"
)
"""Words before a number that is a condition: where or when something holds."""
_HAS_QUANTITY = re.compile(  # "has a total length of 3"
    r"(?i:\b(?:has|had|have) an? (?:[\w-]+ ){1,3}of\s+[$€£]?)\Z"
)
_SENTENCE_LAST = re.compile(r"[^.!?;,:\n]{0,40}\.?\s*(?:\Z|This\b)")
_TIME = re.compile(r"(?i:\b(?:at|around|by)\s)\Z")  # "around 3"
_OPTION = re.compile(r"\A\W*[A-Z][.:)]\s*\Z")  # C. 3
_TOTAL_BEFORE = re.compile(  # "a total of 3"
    r"(?i:\b(?:total|sum|altogether|in all|overall)\b[^.\d]{0,20}|→|=>)\s?\Z"
)
_TOTAL_AFTER = re.compile(  # "3 chairs in total"
    r"(?i:[^\S\n]{0,3}(?:[^\W\d]+[^\S\n]{1,3}){0,3}(?:in total|in all|altogether|total|overall)\b)"
)
_PARTS_FOLLOW = re.compile(r"[:(（—]|(?i:\b(?:because|since|as)\b)")
_LINE_ENDS = re.compile(r"[ *_.]{0,6}\n")
_SUBSET = re.compile(r"(?i:\s*of\s+(?:which|them|these|those|whom)\b)")  # "3 of them"
_OF_WHICH = re.compile(
    r"(?i:\b(?:of (?:which|whom|them)|including)\s*|其中(?:有)?)\Z"
)  # "including 3"
_CHANGED = re.compile(  # "3 more", "3 times as long", "3, not counting the one"
    r"(?i:\s?(?:percent(?:age points?)?\s|%\s)?(?:more|fewer|less"
    r"|o['’]clock)\b"
    r"|\sof (?:a|one) percent\b|[^.;\n]{0,40}\b(?:in addition to|too (?:many|few|low|high))\b"
    r"|\s(?:is|was|seems|would be)\s(?:(?:my|the|an?) )?(?:(?:first|initial|previous|earlier)"
    r" (?:guess|answer|count|estimate|attempt)|wrong|incorrect|mistaken|not)\b"
    r"|\s(?:by one|another|after (?:an)?other)\b"
    r"|\s?times (?:as|more|fewer|less|larger|bigger|smaller|taller|longer|wider|faster)\b"
    r"|[^.;\n]{0,60}\b(?:excluding|not (?:counting|including)|plus|aside from"
    r"|(?<!meters )(?<!metres )(?<!feet )(?<!inches )(?<!\dm )(?<! m )(?<!ft )(?<!cm )apart from"
    r"|besides"
    r"|except|and (?:another|one more|one other))\b)"
)
"""Words after a number that make it another, or a part."""
_AND = re.compile(r"(?i:\band\s*)\Z")
_IS_NOT = re.compile(r"(?i:[^.!?\n]{0,80}\b(?:is|are|was|were)(?:\s+not\b|n['’]t))")
THE_NUMBER = re.compile(
    r"(?i:\W*the (?:\w+ ){0,2}(?:answer|blank|mean|average|number|count|sum|total|difference"
    r"|distance|value)\b)"
)
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
"""Words before a bound that says which things were counted."""
_AGAIN = re.compile(
    r"[(=]\s{0,3}\Z|(?i:\b(?:because|since|so|thus|hence|therefore|total|altogether|overall|answer"
    r"|namely|that is|in (?:short|summary|conclusion))\b|\bi\.e\.)"
)
"""Words or a bracket between a number and its repetition: "4 + 3 = 7, so 7", "seven (7)"."""
_ALONE = re.compile(
    r"\W{0,3}(?i:[cmk]?m[²2]?|ft|feet|foot|inch(?:es)?|(?:square |sq\.? )?met(?:er|re)s?|s"
    r"|sec(?:ond)?s?|minutes?|degrees?)?\W{0,3}(?:[.!]\s|\n)"
)
"""Unit and end after a number that is a sentence by itself: "3 m. The table is ..."."""
_EXCEPT = re.compile(
    r"(?i:\b(?:but|except|without|excluding|though|although|however|only|minus)\b)"
)


class _Number(NamedTuple):
    """A number of a text, and its role in it."""

    numeral: Numeral
    is_stated: bool
    """False if its sentence is about something else."""

    @property
    def value(self) -> float:
        return self.numeral.value


def value_of(text: str) -> float:
    """Return the value of a text; NaN if it states none or several."""
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


def _numbers(text: str) -> list[_Number]:
    """Return the numbers of a text without names ("frame 3") and times of day.

    Numbers that are denied, changed or left open have the value NaN.
    """
    numbers: list[_Number] = []
    for number in islice(numerals(text), MOST):
        value, start, end, is_clock = number
        before = text[max(0, start - 40) : start]
        if _NAME.search(before) or (is_clock and _TIME.search(before)):
            continue
        if numbers and numbers[0].is_stated and _RESTRICTS.search(sentence_before(text, start)):
            continue
        if (
            is_clock
            or _CHANGED.match(text, end)
            or _OPTION.match(text[:start])
            or _is_denied(text, start, end)
            or is_left_open(sentence_before(text, start), text[end : end + 200])
            or (_IS_NOT.match(text, end) and THE_NUMBER.match(sentence_before(text, start)))
        ):
            value = math.nan
        numbers.append(_Number(number._replace(value=value), _states(text, start, end)))
    return numbers


def _is_subset(text: str, first: Numeral | None, number: Numeral) -> bool:
    """Return True if a number counts some of the things of the first: "5, of which 3 are red"."""
    between = "" if first is None else text[first.end : number.start]
    if first is None or _EXCEPT.search(between) or _AND.search(between):
        return False
    return bool(_SUBSET.match(text, number.end) or _OF_WHICH.search(text[: number.start]))


def _is_of_subject(text: str, numbers: Sequence[_Number]) -> bool:
    """Return True if the last number is the value of a subject that has the other numbers in it.

    As in "the distance between chair 1 and chair 2 is 3".
    """
    *others, last = numbers or [_Number(Numeral(math.nan, 0, 0), False)]
    sentence = sentence_before(text, last.numeral.start)
    begin = last.numeral.start - len(sentence)
    return bool(
        others
        and last.is_stated
        and all(number.numeral.start >= begin for number in others)
        and _OF_SUBJECT.fullmatch(sentence)
    )


def _is_list(text: str, numbers: Sequence[_Number]) -> bool:
    """Return True if numbers count one thing each, such as "3 on the left and 3 on the right"."""
    places = [number.numeral for number in numbers]
    gaps = [text[left.end : right.start] for left, right in pairwise(places)]
    if gaps and not re.search(r"\w", text[: places[0].start]) and _ALONE.match(gaps[0]):
        gaps = gaps[1:]
    return any(not _AGAIN.search(gap) for gap in gaps)


def _says_total(text: str, number: Numeral) -> bool:
    """Return True if words beside a number call it a total."""
    return bool(_TOTAL_BEFORE.search(text[: number.start]) or _TOTAL_AFTER.match(text, number.end))


def _total(text: str, numbers: Sequence[_Number]) -> float:
    """Return the number that is called the sum of the others, if it is; NaN otherwise."""
    totals = {
        number.value for number in numbers if _TOTAL_AFTER.match(text, number.numeral.end)
    } or {number.value for number in numbers if _says_total(text, number.numeral)}
    first, second = (number.numeral for number in numbers[:2])
    follow = len(numbers) > 2 and numbers[0].is_stated
    has_own_line = not re.search(r"\w", text[: first.start]) and _LINE_ENDS.match(text, first.end)
    if (
        not totals
        and follow
        and (has_own_line or _PARTS_FOLLOW.search(text[first.end : second.start]))
    ):
        totals = {first.value}
    if len(totals) != 1:
        return math.nan
    total = totals.pop()
    if numbers[-1].value != total and THE_NUMBER.match(
        sentence_before(text, numbers[-1].numeral.start)
    ):
        return math.nan
    parts = [number.value for number in numbers if number.value != total]
    return total if math.isclose(sum(parts), total) else math.nan


def _is_denied(text: str, start: int, end: int) -> bool:
    """Return True if the words around a number, from start to end, deny it."""
    sentence = sentence_before(text, start)
    opens = not re.search(r"\w", sentence)
    return denies(sentence) or (opens and denied_after(text[end : end + 200]))


def _states(text: str, start: int, end: int) -> bool:
    """Return True if a number begins a sentence or follows a word that states it."""
    sentence = sentence_before(text, start)
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
    """Return True if a number is the value of a JSON key that is not a name for an answer.

    An only key, such as that of `{"chairs": 3}`, names the counted things.
    """
    key = _KEY.search(text[max(0, start - 80) : start])
    if key is None or _OF_INPUT_KEY.fullmatch(key[1]):
        return key is not None
    return _OF_ANSWER_KEY.fullmatch(key[1]) is None and len(_ANY_KEY.findall(text)) > 1


def sentence_before(text: str, start: int) -> str:
    """Return the part of a sentence before a place in it, of at most 200 characters."""
    return _SENTENCE_END.split(text[max(0, start - 200) : start])[-1]
