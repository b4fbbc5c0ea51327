"""The stretch of time that a response states, in seconds.

Read: two times of one kind, numbers (as `harness.stated.numbers` spells them) or clocks (`1:05`,
`0:01:05.5`, `1m5s`), with "to", a dash, a comma or the like between them, or under the keys `start`
and `end`; a start and a duration under these keys. Anything else is a failure: more or fewer times,
words between them that tell another story ("at 3 s and at 7 s", "3 s, lasting 7 s"), other units,
and what is denied or bounded.
"""

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from harness.errors import ParseError
from harness.responses import loads_lenient
from harness.stated.languages import certain, is_foreign, unmarked
from harness.stated.markup import plain
from harness.stated.numbers import stated_segments
from harness.stated.numerals import Numeral, numerals
from harness.stated.refusals import denied_after, denies, says_unable

BEYOND = 0.05
"""Share of a video's length by which a stretch of time, rounded or not, may end after it."""
_SECONDS = r"(?:\s?(?i:seconds?|secs?|s|segundos?|secondes?|sekunden?)(?![^\W_])|\s?[秒초])"
_COMPOUND = re.compile(
    r"(?i:(?<![\w.])(?:(\d{1,2})\s?(?:h|hrs?|hours?)\s?)?(\d{1,3})\s?(?:m|mins?|minutes?)\s?"
    r"([0-5]?\d(?:\.\d{1,9})?)\s?(?:s|secs?|seconds?)(?![^\W_]))"
    r"|(\d{1,3})[分분]\s?([0-5]?\d(?:\.\d{1,9})?)[秒초]"
)
_UNIT = re.compile(rf"(?<=\d){_SECONDS}")
_ANGLED = re.compile(rf"<(\d[\d.]{{0,12}}){_SECONDS}>")  # as Qwen3-VL's prompt writes times
_COMMA = re.compile(r"(?<=\d:[0-5]\d:[0-5]\d),(?=\d{3}\b)")  # of subtitles
_ORDINAL = re.compile(r"第(?=\s?\d)")
_ARROW = re.compile(r"(?<=\d)\s?(?:-{1,2}>|[-–−—~～〜→至到]|から|부터)\s?(?=\.?\d)")
_UP_TO = re.compile(r"(?<=\d)\s?(?:まで|까지)")
_TAG_ENDS = re.compile(r"</\w{1,20}>")
_LENGTH = re.compile(
    r"(?i:\b(?:in|of|for) the \d[\d.]{0,9}[-\s]?s(?:ec(?:onds?)?)?\b(?: long)? (?:video|clip)"
    r"|\A\W*the (?:video|clip) (?:is|lasts|has a (?:duration|length) of) \d[\d.]{0,9}\s?"
    r"s(?:ec(?:onds?)?)?\b(?: long)?[.,]\s)"
)
_LETTERS = re.compile(r"[^\W\d_]+\Z")
_LIST_MARK = re.compile(
    r"\A\s*[-*•]\s+|\A\W*(?:(?i:event|segment|clip|moment|answer)\s)?1[.):]\s(?=.*\d.*\d)"
)
_BETWEEN = re.compile(
    r"(?:[\s*_`\"'<>\[\](){}|:=;,.~–—→-]"
    r"|\b(?i:to|till|until|thru|through|up|and|then|it|is|the|at|about|approximately|around"
    r"|roughly|approx|ends?|ending|ended|stops?|stopping|finish(?:es|ed)?|(?:end)?_?(?:time|sec)"
    r"|end_?seconds?|t_?end|timestamps?|seconds?|sec|t|e|t1|a|à|bis|until|hasta|до|th)\b)+"
)
_AND = re.compile(r"(?i:\band\b)")
_ENDS = re.compile(r"(?i:\b(?:ends?|ending|ended|stops?|stopping|finish(?:es|ed)?)\b)")
_BETWIXT = re.compile(r"(?i:\b(?:between|from|starts?|begins?|starting|beginning)\b)")
_STARTS = ("start", "begin", "from", "t_start", "start_sec", "start_seconds")
_STOPS = ("end", "stop", "to", "t_end", "end_sec", "end_seconds")
_BEFORE = re.compile(
    r"(?:\A|[^\w\s]|\n"
    r"|(?<!\w)(?i:from|between|at|around|about|approximately|roughly|is|are|in|the|a|t|s|t0|starts?"
    r"|starting|started|begins?|beginning|began|(?:start)?_?(?:time|sec)|timestamps?|interval|range"
    r"|span|segment|moment|stretch|seconds?|sec|happens?|occurs?|appears?|place|answer|likely"
    r"|probably|think|guess"
    r"|de|von|vom|entre|zwischen|от|с)|[从自在为是]|t_start)\s*\Z"
)
"""Words that may stand before the first time; a time after any other may be of something else."""
_AFTER = re.compile(
    r"\s*(?:\Z|[^\w\s%°+/-]|\n|(?i:in|of|on|during|when|where|while|as|the|a|an|he|she|they|it|is"
    r"|marks?|inclusive|with|and|approximately|respectively)\b|[之间内时為为結结开]|ほど|です|입니다)"
)
_OTHER_UNITS = re.compile(
    r"(?i:\d\s*(?:%|percent|m|h|min|mins|minutes?|hours?|hrs?|ms|milliseconds?|frames?|分|小时)"
    r"(?![a-z])|(?<![a-z])(?:idx|index|indices|percent\w*)(?![a-z])"
    r"|frames?(?![a-z])|_(?:ms|min|minutes?)\b|of (?:the|its) (?:video|clip|duration|length)"
    r"|normali[sz]ed|\bminutes?\b|第?\s*\d+\s*帧|:ff\b|\bfps\b)"
)
_LASTS = re.compile(
    r"(?i:\b(?:last(?:s|ed|ing)(?! from)|durations?|lengths?|long|continu\w+|for\s(?=\D{0,9}\d))\b)"
)
_TAKES = re.compile(
    r"(?i:\b(?:takes?|took|taking|needs?|requires?|spends?|spans?)\s+"
    r"(?:(?:about|around|approximately|roughly|between|from|anywhere|only|just|some|up to)\s+)"
    r"{0,3}\d)"
)
"""A verb of durations right before a number."""
_NOT_BEYOND = re.compile(r"(?i:,\s*not (?:before|after|earlier|later|sooner)\b)")
_NOT_WITHIN = re.compile(
    r"(?i:\b(?:outside|before|after|until|since|beyond|exclud\w+|außerhalb|prior"
    r"|(?:earl|lat)\w+ than)"
    r"(?: of| to)?\s+(?:about\s+)?\d)|\w\(\s*\w+\s*=|\w_\w+\("
    r"|\A\W*(?i:the\s+)?(?i:video|clip)\s+(?i:is|lasts|runs|spans)\b"  # or a call of a function
)


_SUBJECT = re.compile(r"(\w+)\s+(?:is|are)\s*\Z")
_SUBJECTS = frozenset(
    "action answer clip event interval it moment part period portion query range section segment"  # noqa: SIM905
    " span stretch that this time times timestamp timestamps window".split()
)
_ACTION = re.compile(r"[a-z]+ing\Z")
"""A word for the action between two times: "walking: 3 to 7"."""
_OF_TIMES = frozenset(
    unmarked(
        "start_time begin_time start_seconds start_sec starttime sure yes okay ok result output"
        " prediction final correct my json time_range time_interval time_span"
        " antwort die der zeit zeitraum sekunde sekunden ist etwa ca réponse la le temps"
        " intervalle secondes seconde est environ respuesta el tiempo intervalo segundo segundos es"
        " resposta o tempo risposta il secondi secondo è antwoord tijd seconden cevap jawaban waktu"
        " odpowiedź czas svar tid ответ время интервал секунды секунда"
        " 답 정답 정답은 답은 시간 구간 초 약 答え 答えは 正解 正解は 時間 時刻 区間 秒"
        " 約 从 自 在 第 时间 时间段 时间是 时间为 时间范围 起止时间 区间 片段 答案 答案是"
        " 答案为 大约 约 الإجابة الوقت من उत्तर समय"
    ).split()
)
"""Words before two times that lead to them, beside those of English sentences."""


def stated_interval(response: str) -> tuple[float, float]:
    """Return (start, end) in seconds: the two times that a response states.

    Raises:
        ParseError: there are more or fewer, one is in a spelling or a unit that is not known, what
            stands between them does not part a start from an end, or the start is after the end.

    >>> [stated_interval(text) for text in ("[1, 2.5]", "from .5s to 17.83 s", "1:00 - 1:10")]
    [(1.0, 2.5), (0.5, 17.83), (60.0, 70.0)]
    >>> stated_interval('{"start": 10, "duration": 5}')
    (10.0, 15.0)
    """
    text = certain(plain(_TAG_ENDS.sub(";", response)))
    segments = stated_segments(text) or [text]
    start, end = (-1.0, -1.0) if len(segments) > 1 else _times(segments[-1])
    if 0 <= start <= end < math.inf:
        return start, end
    raise ParseError(
        "response", expected="a start and an end, start ≤ end", found=repr(response.strip()[:60])
    )


def refuse_beyond(start: float, end: float, times: Sequence[float]) -> None:
    """Raise where a stretch of time is not one of a video, whose frames have these times.

    Times that count frames are of a video whose rate is not known: nothing is compared.

    Raises:
        ParseError: it begins after the video's end, or ends more than `BEYOND` after it.
    """
    if len(times) < 2 or all(time == frame for frame, time in enumerate(times)):
        return
    last = times[-1] + (times[-1] - times[0]) / (len(times) - 1)
    if start >= last or end > (1 + BEYOND) * last + 1:
        raise ParseError(
            "response",
            expected=f"seconds within the video, which ends at {last:.2f} s",
            found=f"{start:g} to {end:g} s",
        )


def _times(text: str) -> tuple[float, float]:
    """Return the start and end of a text; negative where it states none."""
    named = _named_times(text)
    if named:
        return named
    text = _seconds_alone(text)
    times = [_without_letters(text, time) for time in islice(numerals(text, stretch=True), 3)]
    if len(times) != 2 or times[0].is_clock != times[1].is_clock or _is_outside(text, times):
        return -1, -1
    return times[0].value, times[1].value


def _seconds_alone(text: str) -> str:
    """Return a text with clocks for compound times, and numbers without their seconds."""
    text = _LIST_MARK.sub("", _LENGTH.sub(" ", _ANGLED.sub(r"<\1>", text)))
    text = _COMPOUND.sub(_clock, _COMMA.sub(".", text))
    text = _UP_TO.sub(" ", _UNIT.sub(" ", _ORDINAL.sub("", text)))
    return _ARROW.sub(" to ", text)


def _without_letters(text: str, time: Numeral) -> Numeral:
    """Return a time without the letters that touch it, which may say that it is something else."""
    unit = _LETTERS.search(text, time.start, time.end)
    return time._replace(end=unit.start()) if unit else time


def _clock(compound: re.Match[str]) -> str:
    hours, minutes, seconds, *east = compound.groups()
    minutes, seconds = (minutes, seconds) if minutes else east
    whole, dot, part = seconds.partition(".")
    return f"{f'{hours}:' if hours else ''}{minutes:0>2}:{whole:0>2}{dot}{part}"


def _is_outside(text: str, times: Sequence[Numeral]) -> bool:
    """Return True if a text denies its two times, bounds them, or says something else of them."""
    first, second = times
    before, gap, after = text[: first.start], text[first.end : second.start], text[second.end :]
    parted = _BETWEEN.fullmatch(gap) and gap.strip()
    if _AND.search(gap) and not (_ENDS.search(gap) or _BETWIXT.search(before)):
        parted = None
    subject = _SUBJECT.search(before)
    return bool(
        not parted
        or _is_of_another(before)
        or (subject and subject[1].casefold() not in _SUBJECTS)
        or says_unable(text)
        or denies(before)
        or denied_after(_NOT_BEYOND.sub("", after), whole=True)
        or not (_BEFORE.search(before) and _AFTER.match(after))
        or _NOT_WITHIN.search(text[: first.end])
        or any(pattern.search(text) for pattern in (_OTHER_UNITS, _LASTS, _TAKES))
    )


def _is_of_another(before: str) -> bool:
    """Return True if words before two times, alone or in another language, name something else."""
    words = re.findall(r"[^\W\d_]+(?:_[^\W\d_]+)*", before.casefold())
    if len(words) != 1 and not is_foreign(before):
        return False
    return any(
        not (word in _SUBJECTS | _OF_TIMES or _ACTION.match(word) or _BEFORE.search(f" {word}"))
        for word in words
    )


def _named_times(text: str) -> tuple[float, float] | None:
    """Return the start and the end of a JSON object; None if it has no such keys."""
    begin, end = text.find("{"), text.rfind("}")
    with suppress(ParseError):
        value = loads_lenient(text[begin : end + 1])[0] if 0 <= begin < end else None
        if isinstance(value, dict):
            return _of_keys({str(key).lower().removesuffix("_time"): value[key] for key in value})
    return None


def _of_keys(fields: dict[str, object]) -> tuple[float, float] | None:
    starts = [fields.pop(key) for key in _STARTS if key in fields]
    ends = [fields.pop(key) for key in _STOPS if key in fields]
    lasts = fields.pop("duration", None)
    others = [value for key, value in fields.items() if not isinstance(value, str) or key == "unit"]
    if len(starts) != 1 or (not ends and lasts is None):
        return None
    (start, is_clock), (last, _) = _second(starts[0]), _second(lasts)
    end, is_same = _second(ends[0]) if len(ends) == 1 else (start + last, is_clock)
    if others or is_clock != is_same or (lasts is not None and not math.isclose(end - start, last)):
        return -1, -1
    return start, end


def _second(value: object) -> tuple[float, bool]:
    """Return a time of a JSON object, and True of a clock; not a number for anything else."""
    text = _seconds_alone(json.dumps(value))
    times = list(islice(numerals(text, stretch=True), 2))
    if len(times) != 1 or _OTHER_UNITS.search(text):
        return math.nan, False
    return times[0].value, times[0].is_clock
