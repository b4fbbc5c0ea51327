"""Tokenizer of the numerals in a text, in digits and in English words, with their values.

All readers of `harness.stated` find numbers by `numerals`. A numeral whose spelling or context is
not certain (a fraction, a bound, an unknown suffix) has the value NaN, so that it is a failure and
not overlooked; ordinals, names such as F-16 and rejected numbers ("not 3") are skipped.
"""

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from harness.responses import MAX_DIGITS
from harness.stated.counters import is_changed

_ONES = "one two three four five six seven eight nine".split()
_TEENS = [
    *("ten", "eleven", "twelve", "thirteen", "fourteen"),
    *("fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {
    "zero": 0,
    **{word: value for value, word in enumerate(_ONES + _TEENS, 1)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
SMALL = (
    rf"(?:(?:{'|'.join(_TENS)})(?:[-\s](?:{'|'.join(_ONES)}))?"
    rf"|{'|'.join(_TEENS)}|{'|'.join(_ONES)}|zero)\b"
)
"""Pattern of the words of numbers below a hundred."""
_BELOW_1000 = rf"(?:(?:a|{'|'.join(_ONES)})\s+hundred\b(?:\s+(?:and\s+)?{SMALL})?|{SMALL})"
_SPELT = (
    rf"\b(?:{_BELOW_1000}\s+thousand\b(?:,?\s+(?:and\s+)?{_BELOW_1000})?|a\s+thousand\b"
    rf"|{_BELOW_1000})"
)
_GAPS = "\u00a0\u2009\u202f"  # no-break and thin spaces
_MINUS = "−–﹣－-"  # the last one last: it stands in character sets
_POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
_RAISED = str.maketrans({char: str(value) for value, char in enumerate(_POWERS[:-1])})
# A numeral: "-1,250.5e3", "1.5 × 10^3", "3m", "twenty-one"; `other` are words and signs of numbers
# that are not read, such as "dozens" and "½".
_TOKEN = re.compile(
    rf"(?P<minus>\b(?i:minus|negative)\s+)?(?P<sign>[+±{_MINUS}])?"
    rf"(?:(?P<digits>(?:\d|[.,٫](?=\d))(?:\d|[.,'’_٫٬:/⁄{_GAPS}](?=\d))*)"
    rf"(?P<exponent>[eE][+{_MINUS}]?\d+)?"
    rf"(?P<ten>\s?[×x*·]\s?10\s?(?:(?:\^|\*\*)\s?\{{?[+{_MINUS}]?\d+\}}?|[{_POWERS}]+))?"
    rf"(?P<power>[{_POWERS}]+|\s?(?:\^|\*\*)\s?\{{?[+{_MINUS}]?\d+\}}?)?"
    rf"(?P<suffix>[^\W\d_][^\W_]*)?"
    rf"|(?P<words>(?i:{_SPELT}))|(?P<other>\b(?i:couple|dozens?|pair|hundreds|thousands)\b"
    r"|[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
    r"二两三四五六七八九十百千万亿億萬만억]+))"
)
# 1,250.5
_THOUSANDS = re.compile(rf"[1-9]\d{{0,2}}(?:([,'’_٬{_GAPS}])\d{{3}}(?:\1\d{{3}})*)(?:[.٫]\d+)?")
_LAKHS = re.compile(r"[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?")  # 1,25,000
_EUROPEAN = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+,\d+")  # 1.250,5
_PLAIN = re.compile(r"\d*[.٫]?\d+")  # 1250 or .5
_COMMA = re.compile(r"\d+,(?:\d{1,2}|\d{4,})|0,\d+")  # 2,5
_CLOCK = re.compile(r"(?:(\d{1,2}):)?(\d{1,3}):([0-5]\d(?:\.\d+)?)")  # 0:01:05.5

_NO_NUMBER = re.compile(r"(?:st|nd|rd|th|D|d)\Z")  # 2nd, 3D
_UNIT = re.compile(r"[^\W\d_]*(?:m|ft|in|yd)[23]\Z|[^\W\d_]+\Z")  # the suffix of 3m2 or 3km
_NOT_A_UNIT = re.compile(
    r"(?:[abdefijkoqrtuxyzBDEGHIMOQRSTUXYZ]|[mbt]n|mio|am|pm|[eE]|[万亿億萬千百十만억천点分多余未でπ].*|ish"
    r"|より.*|割|.*(?:半|多|以[上下内]|ません|ない|아니).*)\Z"
)
_BEFORE_BAD = re.compile(  # words before a number that make it a name or a bound: "#", "more than"
    r"(?:(?<!#)#|\b(?i:no)\.|№|(?<![-=])[<>≤≥]=?"
    r"|(?i:\b(?:more|less|fewer|greater|higher|lower|larger|smaller) than"
    r"|\bat (?:least|most)|\b(?:over|under|above|below|up to|exceeds|beyond|out of)))\s*\Z"
)
_REJECTED = re.compile(
    r"(?i:(?:\bnot|n['’]t|\bnever|\brather than|\binstead of|\bno longer|\bexcept)"
    r"(?:\s+(?:about|exactly|be|equal to|is))?)\s*\Z"
)
_KNOWN_SET = re.compile(r"(?i:\b(?:the|these|those|both|between|its|all(?: of)?)(?: other)?\s+)\Z")
_PRONOUN = re.compile(
    r"(?i:\b(?:the|this|that|each|every|any|no|which|another|other)\s+(?:[\w-]+\s+)?)\Z"
)
_ONE_OF = re.compile(r"\s(?:is|was|has|sits|stands)\b[^.!?\n]{0,100}\b(?:the|another) other\b")
_AFTER_BAD = re.compile(  # text after a number that changes it: " dozen", " or more", "/"
    r"-\s*\Z|\.[^\W\d_]|\s?x\b|(?i:\s[e][-+]?\d|\s[ap]\.?m\b|\s?(?:±|\+/-|/|\\times)"
    r"|[-\s]+(?:dozen|pairs?|couples?|sets|trillion|lakh|crore|k|point|hundredths?|tenths?"
    r"|(?:and\s+)?(?:a\s+|one\s+)?(?:half|halves|quarters?|thirds?|fourths?|fifths?)"
    r"|first|second(?!s)|third|fourth|fifth|sixth|seventh|eighth|ninth"
    r"|(?:or|and) (?:so|more|less|fewer|above|below|over|under|up)|(?:oder|ou|o) (?:mehr|plus|más)"
    r"|max(?:imum)?|minimum|tops|plus|squared|cubed|[bmt]n|mi[ol]|ml[nd]|mrd|pi|[a-z]+ths|crores|lakhs|ish|factorial|dutzend)\b"
    r"|,?\s+(?:and (?:change|some|a (?:bit|little))|give or take)\b"
    r"|(?:\s+[^\W\d]+){0,2}\s+and an?\s+[^\W\d]|[^.;\n]{0,30}\b(?:if|unless|provided|assuming)\b"
    r"|(?:\s+[^\W\d]+){0,2}\s+at (?:least|most)\b"
    r"|\s+[^\W\d]+\s+and (?:a|one) (?:half|quarter|third)\b)"
    r"|\s[MBTG]\b|\s?(?:\?|…|\.{3}|~~|❌|で(?!す)|아)|\s?(?:[½⅓⅔¼¾π]|[^\W\d]?半|以[上下内]|[多余]|\\(?:sqrt|pi|pm|div)|\+|[×x*]\s?[(\d\\])"
)
_AFTER_REJECTED = re.compile(
    r"(?i:\s*(?:is|was|would be)\s+(?:\w+\s+)?(?:wrong|incorrect|false|not)\b)"
)


class Numeral(NamedTuple):
    """A number of a text, from `start` to `end`."""

    value: float
    """Not a number where the spelling is not known."""
    start: int
    end: int
    is_clock: bool = False


def numerals(text: str, *, stretch: bool = False) -> Iterator[Numeral]:
    """Yield the numbers of a text, without names such as F-16, rejected numbers and ordinals.

    `stretch`: a dash between blanks separates two numbers, as in an interval.
    """
    first = True
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        before, after = text[max(0, start - 40) : start], text[end : end + 40]
        if _skipped(token, before, after):
            continue
        value, is_clock = _value(token, before, after)
        dash = re.search(rf"[{_MINUS}]\s+\Z", before)
        if dash and not (stretch and not first):
            value = math.nan
        first = False
        yield Numeral(value, start, end, is_clock)


def _skipped(token: re.Match[str], before: str, after: str) -> bool:
    """Return True for a token that is not a stated number; `before` and `after` surround it."""
    suffix = token["suffix"] or ""
    if re.search(r"[A-Za-z_]-?\Z|\^\{?\Z", before) and not token["words"]:
        return True  # a name such as "F-16" or "x_1", or the exponent of a unit
    if token["digits"] and _NO_NUMBER.match(suffix):
        return True
    if token["words"]:
        words = token["words"].lower()
        is_pronoun = _PRONOUN.search(before) or re.match(r"\s+of\s", after)
        is_pronoun = is_pronoun or _ONE_OF.match(token.string, token.end())
        if _KNOWN_SET.search(before) or (words == "one" and is_pronoun):
            return True
    return bool(_REJECTED.search(before) or _AFTER_REJECTED.match(after))


def _value(token: re.Match[str], before: str, after: str) -> tuple[float, bool]:
    """Return a token's (number, True for a clock); NaN if its spelling or context is not known."""
    bound = _BEFORE_BAD.search(before)
    if bound and bound[0].strip() == "<" and after.startswith(">"):
        bound = None  # brackets
    if bound or token["other"] or token["sign"] == "±" or _AFTER_BAD.match(after):
        return math.nan, False
    place = token.start("suffix") if token["suffix"] else token.end()
    if is_changed(token.string[place : place + 120]):
        return math.nan, False
    if token["digits"] and re.search(rf"\S[.,']\Z|[+±{_MINUS}]\Z", before):
        return math.nan, False
    is_clock = False
    if token["words"]:
        size = _in_words(token["words"])
    else:
        suffix = token["suffix"] or ""
        is_unit = not suffix or (_UNIT.match(suffix) and not suffix[0].isnumeric())
        if not is_unit or _NOT_A_UNIT.match(suffix):
            return math.nan, False
        size, is_clock = _in_digits(token)
    scale = re.match(rf"\s+({'|'.join(_SCALES)})\b(.{{0,20}})", after, re.IGNORECASE)
    if scale:
        more = re.match(r"\s+(?:and\s+)?(?:\d|" + "|".join(_WORDS) + r")", scale[2], re.IGNORECASE)
        size = math.nan if more else size * _SCALES[scale[1].lower()]
    sign = token["sign"] or ""
    if sign and sign in _MINUS and re.search(r"[\d%)\]]\s?\Z|[a-z]\Z", before):
        sign = ""  # a range
    negative = bool(sign and sign in _MINUS) != bool(token["minus"])
    return (-size if negative else size), is_clock


def _in_digits(token: re.Match[str]) -> tuple[float, bool]:
    """Return (number, True for a clock) of a token in digits, without its sign; NaN: unknown."""
    digits = token["digits"]
    if len(digits) > MAX_DIGITS:
        return math.nan, False
    clock = _CLOCK.fullmatch(digits)
    if clock:
        hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        return 3600 * hours + 60 * minutes + seconds, True
    if _THOUSANDS.fullmatch(digits) or _LAKHS.fullmatch(digits):
        digits = re.sub(rf"[,'’_٬{_GAPS}]", "", digits)
    elif _EUROPEAN.fullmatch(digits):
        digits = digits.replace(".", "").replace(",", ".")
    elif _COMMA.fullmatch(digits):
        digits = digits.replace(",", ".")
    elif not _PLAIN.fullmatch(digits):
        return math.nan, False
    digits = digits.replace("٫", ".")
    if token["power"]:  # 10^3; 5² is not known to be a power
        return (_scaled("1", token["power"]) if float(digits) == 10 else math.nan), False
    ten = re.sub(r"\A\s?[×x*·]\s?10", "", token["ten"] or "")
    if ten and token["exponent"]:
        return math.nan, False
    return _scaled(digits, ten or (token["exponent"] or "")[1:]), False


def _scaled(digits: str, power: str) -> float:
    """Return a number times a power of ten, such as "^3", exactly; NaN if that is not a power."""
    plain = re.sub(rf"[⁻{_MINUS}]", "-", re.sub(r"[\s^*{}]", "", power).translate(_RAISED))
    with suppress(ValueError):
        return float(f"{digits}e{plain or 0}") if len(plain) < 6 else math.nan
    return math.nan


def _in_words(words: str) -> float:
    """Return the number of English words: 1005 for "a thousand and five"."""
    thousands = below_thousand = 0.0
    for word in re.split(r"[-\s,]+", words.lower()):
        if word == "thousand":
            thousands, below_thousand = max(below_thousand, 1.0) * 1000, 0
        elif word == "hundred":
            below_thousand = max(below_thousand, 1.0) * 100
        elif word not in ("and", "a"):
            below_thousand += _WORDS[word]
    return thousands + below_thousand
