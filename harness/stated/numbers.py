"""The number that a response states, and the stretch of time.

Read: signs (also `−`, `–`, "minus"), decimals (`.5`; `1,5`, a comma with other than three digits),
thousands (`1,500`, `1'500`, `1 500` with a no-break space), exponents (`1e-3`, `1.5 × 10^3`), other
scripts' digits, English words ("twenty-one"), times (`1:05`, in a stretch). Units are passed over,
not converted. A number begins a sentence or follows a word that states it ("is", "there are", "=").
Any other number is a failure, and so are fractions, ratios, bounds ("more than 3"), ranges, several
numbers, what is denied, and what says that it knows no answer.
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import unescape
from itertools import chain, islice
from typing import NamedTuple

from harness.errors import ParseError
from harness.responses import MAX_DIGITS, loads_lenient
from harness.stated.corrections import after_correction
from harness.stated.refusals import denied_after, denies, says_unable
from harness.stated.statements import ABOUT_ANSWER, is_denied, states_number

_ONES = "one two three four five six seven eight nine".split()  # noqa: SIM905
_TEENS = [
    *("ten", "eleven", "twelve", "thirteen", "fourteen"),
    *("fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_WORDS = {
    "zero": 0,
    **{word: value for value, word in enumerate(_ONES + _TEENS, 1)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
}
_SCALES = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_SMALL = (
    rf"(?:(?:{'|'.join(_TENS)})(?:[-\s](?:{'|'.join(_ONES)}))?"
    rf"|{'|'.join(_TEENS)}|{'|'.join(_ONES)}|zero)\b"
)
_BELOW_1000 = rf"(?:(?:a|{'|'.join(_ONES)})\s+hundred\b(?:\s+(?:and\s+)?{_SMALL})?|{_SMALL})"
_SPELT = (
    rf"\b(?:{_BELOW_1000}\s+thousand\b(?:,?\s+(?:and\s+)?{_BELOW_1000})?|a\s+thousand\b"
    rf"|{_BELOW_1000})"
)
_GAPS = "\u00a0\u2009\u202f"  # no-break and thin spaces
_MINUS = "−–﹣－-"  # the last one last: it stands in character sets
_POWERS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
_RAISED = str.maketrans({char: str(value) for value, char in enumerate(_POWERS[:-1])})
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
_THOUSANDS = re.compile(rf"[1-9]\d{{0,2}}(?:([,'’_٬{_GAPS}])\d{{3}}(?:\1\d{{3}})*)(?:[.٫]\d+)?")
_LAKHS = re.compile(r"[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?")
_EUROPEAN = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+,\d+")
_PLAIN = re.compile(r"\d*[.٫]?\d+")
_COMMA = re.compile(r"\d+,(?:\d{1,2}|\d{4,})|0,\d+")
_CLOCK = re.compile(r"(?:(\d{1,2}):)?(\d{1,3}):([0-5]\d(?:\.\d+)?)")

_LISTS = re.compile(
    r"\[[^\[\]\n]{0,200}\]|\([-+−.,\s\d]{0,200}\)|(?<![\w^}])\{[-+−.,\s\d]{0,200}\}"
)
_BETWEEN = re.compile(r"(?<=\d),(?=[\d.])")  # in a list, where a comma parts numbers
_TAG = re.compile(r"<(/?)(su[bp])?[a-zA-Z][^<>\n]{0,60}>|<su([bp])>", re.IGNORECASE)
_NO_NUMBER = re.compile(r"(?:st|nd|rd|th|D|d)\Z")  # 2nd, 3D
_UNIT = re.compile(r"[^\W\d_]*(?:m|ft|in|yd)[23]\Z|[^\W\d_]+\Z")
_NOT_A_UNIT = re.compile(
    r"(?:[kKMBGT]|[mbt]n|mio|am|pm|[eE]|[万亿億萬千百十만억천点分多余未でπ].*|ish"
    r"|より.*|.*(?:半|以[上下内]).*)\Z"
)
_BEFORE_BAD = re.compile(
    r"(?:(?<![-=])[<>≤≥]=?|(?i:\b(?:more|less|fewer|greater|higher|lower|larger|smaller) than"
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
_AFTER_BAD = re.compile(
    r"(?i:\s[e][-+]?\d|\s[ap]\.?m\b|\s?(?:±|\+/-|/|\\times)"
    r"|[-\s]+(?:dozen|trillion|lakh|crore|k|point|hundredths?|tenths?"
    r"|(?:and\s+)?(?:a\s+|one\s+)?(?:half|halves|quarters?|thirds?|fourths?|fifths?)"
    r"|first|second(?!s)|third|fourth|fifth|sixth|seventh|eighth|ninth"
    r"|(?:or|and) (?:so|more|less|fewer|above|below|over|under|up)|(?:oder|ou|o) (?:mehr|plus|más)"
    r"|max(?:imum)?|minimum|tops|plus|squared|cubed|[bmt]n|mi[ol]|ml[nd]|mrd|pi|[a-z]+ths|crores|lakhs|ish|factorial|dutzend)\b"
    r"|(?:\s+[^\W\d]+){0,2}\s+at (?:least|most)\b"
    r"|\s+[^\W\d]+\s+and (?:a|one) (?:half|quarter|third)\b)"
    r"|\s[MBTG]\b|\s?(?:\?|…|\.{3}|~~|❌|で|아)|\s?(?:[½⅓⅔¼¾π]|[^\W\d]?半|以[上下内]|[多余]|\\(?:sqrt|pi|pm|div)|\+|[×x*]\s?[(\d\\])"
)
_AFTER_REJECTED = re.compile(
    r"(?i:\s*(?:is|was|would be)\s+(?:\w+\s+)?(?:wrong|incorrect|false|not)\b)"
)
_STATED = re.compile(
    r"(?P<boxed>\\boxed\s*\{)|(?P<key>(?i:[\"'](?:final_?)?answer[\"'])\s*:)"
    r"|(?i:\b(?:answer|result)\b[*_`]{0,3}\s*(?:(?:is|would be|should be|equals)\b|[:=]))"
    r"|答案\s*(?:应该|应)?(?:是|为|：|:)"
)
_NOT_BLANK = re.compile(r"\S|\Z")
_SENTENCE = re.compile(r"(?:[^\n;；。.!?]|[.!?](?!\s|\Z)){0,400}")
_IN_BRACES = re.compile(r"[^{}]*(?:\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}[^{}]*)*")
_JSON_VALUE = re.compile(
    r"\s*(?:\"[^\"\n]{0,400}\"|\[[^\]\n]{0,400}\]|'[^'\n]{0,400}'|[^,}\n]{0,400})"
)
_OTHER_UNITS = re.compile(
    r"(?i:\d\s*(?:%|percent|m|h|min|mins|minutes?|hours?|hrs?|ms|milliseconds?|frames?|分|小时)"
    r"(?![a-z])|(?<![a-z])(?:idx|index|indices|percent\w*)(?![a-z])"
    r"|frames?(?![a-z])|_(?:ms|min|minutes?)\b|of (?:the|its) (?:video|clip|duration|length)"
    r"|normali[sz]ed|\bminutes?\b|第\s*\d+\s*帧)"
)
_NOT_BEYOND = re.compile(r"(?i:,\s*not (?:before|after|earlier|later|sooner)\b)")
_NOT_WITHIN = re.compile(
    r"(?i:\b(?:outside|before|after|until|since|beyond|exclud\w+|außerhalb|prior"
    r"|(?:earl|lat)\w+ than)"
    r"(?: of| to)?\s+(?:about\s+)?\d)|\w\(\s*\w+\s*=|\w_\w+\("
    r"|\A\W*(?i:the\s+)?(?i:video|clip)\s+(?i:is|lasts|runs|spans)\b"  # or a call of a function
)


class _Token(NamedTuple):
    value: float
    """Not a number where the spelling is not known."""
    start: int
    end: int
    is_clock: bool = False
    is_stated: bool = True
    """False of a number that stands in a sentence about something else."""


def stated_number(response: str) -> float:
    r"""Return the one number that a response states.

    Where it says which number is the answer ("the answer is", `\boxed{}`), that one counts, and the
    last such statement has to be a number; otherwise it has to be the only one. The same number
    twice is one.

    Raises:
        ParseError: it states none, several, or one in a spelling that is not known.

    >>> [stated_number(text) for text in ("about 1,250.5 m^2", "−3m", ".5", "1e-3", "Not 3 but 4")]
    [1250.5, -3.0, 0.5, 0.001, 4.0]
    """
    text = _plain(response)
    segments = _stated_segments(text)
    values: set[float] = set()
    is_stated = False
    if (segments and not any(_tokens(segments[-1]))) or (not segments and says_unable(text)):
        segments = [""]
    for token in chain.from_iterable(map(_tokens, segments or [text])):
        values.add(token.value)
        is_stated |= token.is_stated
        if len(values) > 1:
            break
    if not is_stated or len(values) != 1 or not all(map(math.isfinite, values)):
        raise ParseError("response", expected="one number", found=repr(response.strip()[:60]))
    return values.pop()


def stated_interval(response: str) -> tuple[float, float]:
    """Return (start, end) in seconds: the two numbers, or the two times, that a response states.

    Raises:
        ParseError: there are more or fewer, one is in a spelling or a unit that is not known, or
            the start is after the end.

    >>> [stated_interval(text) for text in ("[1, 2.5]", "from .5s to 17.83 s", "1:00 - 1:10")]
    [(1.0, 2.5), (0.5, 17.83), (60.0, 70.0)]
    """
    text = _plain(response)
    segments = _stated_segments(text) or [text]
    found = _named_times(segments[-1]) or list(islice(_tokens(segments[-1], stretch=True), 3))
    problem = len(segments) > 1 or len(found) != 2 or _is_outside(segments[-1], found)
    if not problem and found[0].is_clock == found[1].is_clock:
        start, end = found[0].value, found[1].value
        if -math.inf < start <= end < math.inf:
            return start, end
    raise ParseError(
        "response", expected="a start and an end, start ≤ end", found=repr(response.strip()[:60])
    )


def _is_outside(text: str, found: Sequence[_Token]) -> bool:
    """Return True if a text denies its two times, bounds them, or says them in another unit."""
    start, end = min(token.start for token in found), max(token.end for token in found)
    return (
        says_unable(text)
        or denies(text[:start])
        or denied_after(_NOT_BEYOND.sub("", text[end:]), whole=True)
        or any(pattern.search(text) for pattern in (_NOT_WITHIN, _OTHER_UNITS))
    )


def _named_times(text: str) -> list[_Token]:
    """Return the tokens of the values `start` and `end` of a JSON object, in this order."""
    begin, end = text.find("{"), text.rfind("}")
    with suppress(ParseError):
        value = loads_lenient(text[begin : end + 1])[0] if 0 <= begin < end else None
        if isinstance(value, dict):
            plain = {str(key).lower().removesuffix("_time"): item for key, item in value.items()}
            parts = [json.dumps(plain[key]) for key in ("start", "end") if key in plain]
            found = [list(_tokens(part, stretch=True)) for part in parts]
            if len(found) == 2 and all(len(one) == 1 for one in found):
                return [one[0] for one in found]
    return []


def _plain(response: str) -> str:
    """Return the text after the last correction, without markup that can join numbers."""
    text = unescape(after_correction(response))
    text = _TAG.sub(lambda tag: {"sup": "^", "sub": "_"}.get(tag[0][1:4].lower(), " "), text)
    text = _LISTS.sub(lambda listed: _BETWEEN.sub(", ", listed[0]), text)
    for mark, plain in (
        ("{,}", ","),
        ("．", "."),
        ("\\,", "\u202f"),
        ("\\times", "×"),
        ("\\cdot", "×"),
        ("\\text", " "),
        ("\\mathrm", " "),
        ("\\%", "%"),
        ("**", " ") if "10**" not in text else ("**", "**"),
    ):
        text = text.replace(mark, plain)
    return text


def _stated_segments(text: str) -> list[str]:
    """Return what follows each statement of an answer, to the end of its sentence.

    A statement that is denied or left open is empty: it states no value.
    """
    segments = []
    for found in _STATED.finditer(text):
        pattern = _JSON_VALUE if found["key"] else _SENTENCE
        rest = pattern.match(text, _NOT_BLANK.search(text, found.end()).start())  # type: ignore[union-attr]  # always found
        segment = rest[0] if rest else ""
        if found["boxed"]:
            segment = _IN_BRACES.match(segment)[0]  # type: ignore[index]  # always a match
        if denies(text[max(0, found.start() - 200) : found.start()]):
            segment = ""
        if not ABOUT_ANSWER.match(segment):
            segments.append(segment)
    return segments


def _tokens(text: str, *, stretch: bool = False) -> Iterator[_Token]:
    """Yield the numbers of a text; those that it rejects, and ordinals, are left out.

    In a `stretch`, a dash between blanks parts two numbers.
    """
    first = True
    for found in _TOKEN.finditer(text):
        start, end = found.span()
        before, after = text[max(0, start - 40) : start], text[end : end + 40]
        if _skipped(found, before, after):
            continue
        value, is_clock = _value(found, before, after)
        dash = re.search(rf"[{_MINUS}]\s+\Z", before)
        if dash and not (stretch and not first):
            value = math.nan
        if not stretch and (is_clock or is_denied(text, start, end)):
            value = math.nan
        first = False
        yield _Token(value, start, end, is_clock, stretch or states_number(text, start, end))


def _skipped(found: re.Match[str], before: str, after: str) -> bool:
    suffix = found["suffix"] or ""
    if re.search(r"[A-Za-z_]-?\Z|\^\{?\Z", before) and not found["words"]:
        return True  # a name such as "F-16" or "x_1", or the exponent of a unit
    if found["digits"] and _NO_NUMBER.match(suffix):
        return True
    if found["words"]:
        words = found["words"].lower()
        if _KNOWN_SET.search(before) or (words == "one" and _PRONOUN.search(before)):
            return True
    return bool(_REJECTED.search(before) or _AFTER_REJECTED.match(after))


def _value(found: re.Match[str], before: str, after: str) -> tuple[float, bool]:
    """Return a token's number, not a number where its spelling is not known; and True of a time."""
    bound = _BEFORE_BAD.search(before)
    if bound and bound[0].strip() == "<" and after.startswith(">"):
        bound = None  # brackets
    if bound or found["other"] or found["sign"] == "±" or _AFTER_BAD.match(after):
        return math.nan, False
    if found["digits"] and re.search(rf"\S[.,']\Z|[+±{_MINUS}]\Z", before):
        return math.nan, False
    is_clock = False
    if found["words"]:
        size = _in_words(found["words"])
    else:
        suffix = found["suffix"] or ""
        is_unit = not suffix or (_UNIT.match(suffix) and not suffix[0].isnumeric())
        if not is_unit or _NOT_A_UNIT.match(suffix):
            return math.nan, False
        size, is_clock = _in_digits(found)
    scale = re.match(rf"\s+({'|'.join(_SCALES)})\b(.{{0,20}})", after, re.IGNORECASE)
    if scale:
        more = re.match(r"\s+(?:and\s+)?(?:\d|" + "|".join(_WORDS) + r")", scale[2], re.IGNORECASE)
        size = math.nan if more else size * _SCALES[scale[1].lower()]
    sign = found["sign"] or ""
    if sign and sign in _MINUS and re.search(r"[\d%)\]]\s?\Z|[a-z]\Z", before):
        sign = ""  # a range
    negative = bool(sign and sign in _MINUS) != bool(found["minus"])
    return (-size if negative else size), is_clock


def _in_digits(found: re.Match[str]) -> tuple[float, bool]:
    digits = found["digits"]
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
    if found["power"]:  # 10^3; 5² is not known to be a power
        return (_scaled("1", found["power"]) if float(digits) == 10 else math.nan), False
    ten = re.sub(r"\A\s?[×x*·]\s?10", "", found["ten"] or "")
    if ten and found["exponent"]:
        return math.nan, False
    return _scaled(digits, ten or (found["exponent"] or "")[1:]), False


def _scaled(digits: str, power: str) -> float:
    """Return the number times a power of ten, exactly; not a number where the power is none."""
    plain = re.sub(rf"[⁻{_MINUS}]", "-", re.sub(r"[\s^*{}]", "", power).translate(_RAISED))
    with suppress(ValueError):
        return float(f"{digits}e{plain or 0}") if len(plain) < 6 else math.nan
    return math.nan


def _in_words(words: str) -> float:
    total = below = 0.0
    for word in re.split(r"[-\s,]+", words.lower()):
        if word == "thousand":
            total, below = max(below, 1) * 1000, 0
        elif word == "hundred":
            below = max(below, 1) * 100
        elif word not in ("and", "a"):
            below += _WORDS[word]
    return total + below
