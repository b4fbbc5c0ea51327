"""Reader of the time interval that a response states, in seconds.

`stated_interval` reads two times of one kind: numbers (as `harness.stated.numerals` reads them) or
clocks (`1:05`, `0:01:05.5`, `1m5s`), with "to", a dash, a comma or the like between them; or JSON
with `start` and `end`, or `start` and `duration`. Anything else is a ParseError: more or fewer
times, words between them that do not join a start and an end ("at 3 s and at 7 s", "3 s, lasting
7 s"), other units, denials and bounds.
"""

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice

from harness.errors import ParseError
from harness.responses import loads_lenient
from harness.stated.asked_things import says_another_state
from harness.stated.languages import certain, is_foreign, unmarked
from harness.stated.markup import BOX, plain
from harness.stated.numbers import stated_segments
from harness.stated.numerals import Numeral, numerals
from harness.stated.refusals import denied_after, denies, says_unable

BEYOND = 0.05
"""Share of a video's length by which an interval, say a rounded one, may end after it."""
ROUNDED = 0.5
"""Largest difference in seconds of two notations of one time."""
_LENGTH_ALONE = re.compile(  # "about 4 seconds", "duration: 4 s"
    r"(?i:\W*(?:(?:a )?(?:duration|length|total)(?: of|:)? )?"
    r"(?:about |approximately |around |roughly |ca\.? |~)?"
    r"\d[\d.]{0,9}\s?s(?:ec(?:ond)?s?)?(?: (?:long|duration|in total|total))?\W*)"
)
"""Seconds in brackets behind an interval that can only be its length."""
_BRACKETS = re.compile(r"(?<=[\w\])])\s?\(([^()\n]{3,80})\)")
_LASTING = re.compile(
    r"(?i:[,;]?\s(?:(?:with |for )?a (?:total )?(?:duration|length) of|lasting|which lasts"
    r"|lasts for)"
    r"\s(?:about |approximately |around |roughly )?(\d[\d.]{0,9})\s?s(?:ec(?:ond)?s?)?\.?\s*)\Z"
)
"""The end of a text that gives the length of its interval: ", with a duration of 6.5 seconds"."""
_AGAIN_IN_SECONDS = re.compile(
    r"(?<![\w:])(\d{1,3}:[0-5]\d(?::[0-5]\d)?(?:\.\d{1,9})?)\s?\((?:i\.e\.,? |or )?(\d[\d.]{0,9})"
    r"\s?s(?:ec(?:ond)?s?)?\)"
)
"""A clock and its seconds: "1:05 (65 s)"."""
_SECONDS = (
    r"(?:\s?(?i:seconds?|secs?|s|segundos?|secondes?|sekunden?|секунд\w?)(?![^\W_])|\s?[秒초])"
)
_COMPOUND = re.compile(  # 1h 2m 5s, or 2分5秒
    r"(?i:(?<![\w.])(?:(\d{1,2})\s?(?:h|hrs?|hours?)\s?)?(\d{1,3})\s?(?:m|mins?|minutes?)\s?"
    r"([0-5]?\d(?:\.\d{1,9})?)\s?(?:s|secs?|seconds?)(?![^\W_]))"
    r"|(\d{1,3})[分분]\s?([0-5]?\d(?:\.\d{1,9})?)[秒초]"
)
_UNIT = re.compile(rf"(?<=\d){_SECONDS}")  # " seconds" of "3 seconds"
_ANGLED = re.compile(rf"<(\d[\d.]{{0,12}}){_SECONDS}>")  # <3.5 seconds> of Qwen3-VL's prompt
_COMMA = re.compile(r"(?<=\d:[0-5]\d:[0-5]\d),(?=\d{3}\b)")  # the comma of a subtitle's 0:01:05,500
_ORDINAL = re.compile(
    r"第(?=\s?\d)|(?<=\d)(?:st|nd|rd|th)(?=\sseconds?(?:\s(?:to|until|till|through|and|of)\b|\W*\Z))"
)
_ARROW = re.compile(
    r"(?<=\d)\s?(?:-{1,2}>|[-–−—~～〜→至到]|から|부터|에서)\s?(?=\.?\d)"
)  # " -> " between times
_UP_TO = re.compile(r"(?<=\d)\s?(?:まで|까지)")
_TAG_ENDS = re.compile(r"</\w{1,20}>")
_LENGTH = re.compile(  # "in the 30-second video", which is the video's length
    r"(?i:\b(?:in|of|for) the \d[\d.]{0,9}[-\s]?s(?:ec(?:onds?)?)?\b(?:[-\s]long)? (?:video|clip)"
    r"|\b(?:in|of|for) the \d{1,2}:\d\d(?:[-\s](?:long|minute))? (?:video|clip)"
    r"|\b(?:at|near|towards?) the (?:very )?(?:beginning|start|middle|end) of the (?:video|clip)"
    r"|\A\W*the (?:video|clip) (?:is|lasts|has a (?:duration|length) of) \d[\d.]{0,9}\s?"
    r"s(?:ec(?:onds?)?)?\b(?: long)?[.,]\s)"
)
_LETTERS = re.compile(r"[^\W\d_]+\Z")
_LIST_MARK = re.compile(  # "- " or "Event 1: "
    r"\A\s*[-*•]\s+|\A\W*(?:(?i:event|segment|clip|moment|answer)\s)?1[.):]\s(?=.*\d.*\d)"
)
_BETWEEN = re.compile(  # all that may stand between the two times: " s to ", " and ends at "
    r"(?:[\s*_`\"'<>\[\](){}|:=;,.~–—→-]"
    r"|\b(?i:to|till|until|thru|through|up|and|then|it|is|the|at|about|approximately|around"
    r"|roughly|approx|(?:action|activity|event|moment|segment)(?= ends| stops)"
    r"|ends?|ending|ended|stops?|stopping|finish(?:es|ed)?|(?:end)?_?(?:time|sec)"
    r"|end_?seconds?|t_?end|timestamps?|seconds?|sec|t|e|t1|a|à|bis|until|hasta|el segundo|el|до|по"
    r"|continu(?:es|ing)|th)\b)+"
)
_AND = re.compile(r"(?i:\band\b)")
_ENDS = re.compile(
    r"(?i:\b(?:continu(?:es|ing) until|ends?|ending|ended|stops?|stopping|finish(?:es|ed)?)\b)"
)
_BETWIXT = re.compile(r"(?i:\b(?:between|from|starts?|begins?|starting|beginning)\b)")
_STARTS = ("start", "begin", "from", "t_start", "start_sec", "start_seconds")
_STOPS = ("end", "stop", "to", "t_end", "end_sec", "end_seconds")
_BEFORE = re.compile(
    r"(?:\A|[^\w\s]|\n"
    r"|(?<!\w)(?i:from|between|during|at|around|about|approximately|roughly|is|are|in|the|a|t|s|t0|starts?"
    r"|starting|started|begins?|beginning|began|(?:start)?_?(?:time|sec)|timestamps?|interval|range"
    r"|span|segment|moment|stretch|seconds?|sec|happens?|occurs?|appears?|place|answer|likely"
    r"|probably|think|guess"
    r"|de|desde|segundo|von|vom|entre|zwischen|от|с)|[从自在为是的]|t_start)\s*\Z"
)
"""Words that may stand before the first time; a time after any other may be of something else."""
_AFTER = re.compile(
    r"\s*(?:\Z|[^\w\s%°+/-]|\n|(?i:in|into|of|on|during|when|where|while|as|the|a|an|he|she|they|it|is"
    r"|marks?|inclusive|with|and|approximately|respectively)\b|[之间内时為为結结开]|ほど|です|입니다)"
)
_OTHER_UNITS = re.compile(
    r"(?i:\d\s*(?:%|percent|m|h|min|mins|minutes?|hours?|hrs?|ms|milliseconds?|frames?|分|小时)"
    r"(?![a-z])|(?<![a-z])(?:idx|index|indices|percent\w*)(?![a-z])"
    r"|frames?(?![a-z])|_(?:ms|min|minutes?)\b|of (?:the|its) (?:video|clip|duration|length)"
    r"|normali[sz]ed|\bminutes?\b|第?\s*\d+\s*帧|:ff\b|\bfps\b)"
)
_ASKS_FRAMES = re.compile(
    r"(?i:\b(?:which|what)\s(?:of the )?(?:video\s)?frames?\b"
    r"|\bframe\s?(?:numbers?|ind(?:ex|ices)|ids?|range|interval)\b"
    r"|\b(?:start(?:ing)?|end(?:ing)?|first and last)\sframes?\b|\bin frames\b)"
    r"|(?:第几|哪几|哪些|哪一?)帧"
)
_ASKS_SHARES_OR_MINUTES = re.compile(  # "as a fraction of the video", "in minutes"
    r"(?i:\b(?:in|as|which|what) percent(?:ages?)?\b|\bas normali[sz]ed\b"
    r"|\bnormali[sz]ed times?\b"
    r"|(?:%|\b(?:percent(?:ages?)?|fractions?|hundredths)) of the (?:video|clip)\b"
    r"|\bfractions? (?:between|from) 0 |\b(?:which|what) (?:minutes?|hours?)\b"
    r"|\b(?:times?|answers?|responses?|starts?|ends?|intervals?)\b[^.?!]{0,40}"
    r"\bin (?:minutes|hours)\b)"
)
_ASKS_SECONDS = re.compile(r"(?i:(?<!\d)(?<!\d\s)\bseconds\b|\btimestamps?\b)|秒")
"""A question for seconds, and not a length such as "the 60 seconds"."""
_IN_SECONDS = re.compile(rf"\d{_SECONDS}|\d:[0-5]\d|(?i:\b(?:seconds|secs|timestamps?)\b)")
"""A number with its unit, as "3.5 s"; a clock, as "1:05"; or a word for the unit of all numbers."""
_LASTS = re.compile(  # words of a duration
    r"(?i:\b(?:last(?:s|ed|ing)(?! from)|durations?|lengths?|long|continu\w+(?! (?:un)?til\b)"
    r"|for\s(?=\D{0,9}\d))\b)"
)
_TAKES = re.compile(
    r"(?i:\b(?:takes?|took|taking|needs?|requires?|spends?|spans?(?! from\b)"
    r"(?!\D{0,20}\d[\d.:]*\s?s?\s?[-–—]\s?\d))\s+"
    r"(?:(?:about|around|approximately|roughly|between|from|anywhere|only|just|some|up to)\s+)"
    r"{0,3}\d)"
)
"""A verb of durations right before a number."""
_NOT_ALL = re.compile(r"(?i:\bnot (?:only|just|entirely|completely)\b|\bno\.)")
_NOT_BEYOND = re.compile(r"(?i:,\s*not (?:before|after|earlier|later|sooner)\b)")
_NOT_WITHIN = re.compile(  # "before 3", the video's own length, or the call of a function
    r"(?i:\A[^.,]*\babout to \w+[^.,]*\d|\b(?:before|after)\b[^.!?]{2,60},\swhich\b)"
    r"|(?i:\b(?:outside|before|after|until|since|beyond|exclud\w+|außerhalb|prior"
    r"|(?:earl|lat)\w+ than)"
    r"(?: of| to)?\s+(?:about\s+)?\d)|\w\(\s*\w+\s*=|\w_\w+\("
    r"|\A\W*(?i:the\s+)?(?i:video|clip)\s+(?i:is|lasts|runs|spans|starts|begins)\b"
    r"|\b(?i:(?:starts?|begins?|ends?|stops?|some ?time|some point|somewhere)\s+between"
    r"|at (?:least|most)(?: from)?)\s+\d"
)


_BOX_TOKEN = re.compile(r"<\|(?:begin|end)_of_box\|>")
"""Tokens that GLM's networks write around an answer, here around each of two times."""
_BEFORE_REASONS = re.compile(
    r"(?<=\d)[^\w\n]*(?:s(?:ec(?:ond)?s?)?\b[^\w\n]*)?\n[\s*_#]*"
    r"(?:Reason(?:ing|s)?|Explanation|Rationale|Justification)[*_]{0,3}:"
    r"(?!.*\b(?i:answer|final|result|end|no such)\b).*\Z",
    re.DOTALL,
)
"""The end of a text from its reasons on, after a line that ends with a time."""
_STARTS_AT = re.compile(r"(?i:\b(?:starts?|begins?|started|began|starting|beginning)\b)")
_ENDS_AT = re.compile(
    r"(?<=[\ds])(?:\s?(?:s|secs?|seconds?)\b)?(?:\sin\b)?(?:,\s(?:when|as|where|while)\s[^\d.;!?\n]{2,60})?"
    r",?\s(?:and|then|and then)\s(?:it |finally ){0,2}"
    r"(?:ends?|stops?|finish(?:es)?|is (?:done|over|finished|complete)|concludes?|wraps? up"
    r"|(?:lasts?|continues?|goes on) until)\s"
    r"(?:(?:at|by|around|about|approximately|roughly|near|just|the)\s){0,3}(?=\d)",
    re.IGNORECASE,
)
"""Words between a start and an end: "3 s, when he sits, and ends at 7 s"."""
_OF_PERSON = re.compile(r"\b(?:he|she|they)\b", re.IGNORECASE)
"""Words of a clause that may tell what happens after the event."""
_CLAUSE_ENDS = re.compile(r"(?<=[.!?;\])])\s|\n|,\s(?:so|thus|hence|therefore|giving)\s")
_SUBJECT = re.compile(r"(\w+)\s+(?:is|are)\s*\Z")
_SUBJECTS = frozenset(
    "action answer clip event interval it moment part period portion query range section segment"
    " span stretch that this time times timestamp timestamps window".split()
)
_ACTION = re.compile(r"[a-z]+ing\Z")
"""A word for the action between two times: "walking: 3 to 7"."""
_OF_TIMES = frozenset(
    unmarked(
        "start_time begin_time start_seconds start_sec starttime relevant_windows sure yes okay ok"
        " result output"
        " prediction final correct my json time_range time_interval time_span"
        " desde el antwort die der zeit zeitraum sekunde sekunden ist etwa ca réponse la le temps"
        " intervalle secondes seconde est environ respuesta el tiempo intervalo segundo segundos es"
        " resposta o tempo risposta il secondi secondo è antwoord tijd seconden cevap jawaban waktu"
        " odpowiedź czas svar tid ответ время интервал секунды секунда"
        " 답 정답 정답은 답은 시간 구간 초 약 答え 答えは 正解 正解は 時間 時刻 区間 秒"
        " 約 从 自 在 第 时间 时间段 时间是 时间为 时间范围 起止时间 区间 片段 答案 答案是"
        " 答案为 大约 约 الإجابة الوقت من उत्तर समय"
    ).split()
)
"""Words that may stand before the two times alone, or in other languages."""


def stated_interval(
    response: str, question: str = "", times: Sequence[float] = ()
) -> tuple[float, float]:
    """Return (start, end) in seconds: the two times that a response states.

    Args:
        response: The response after its thought.
        question: The question, which says of what the times are asked, and in which unit.
        times: The times of the video's frames in seconds, if known.

    Raises:
        ParseError: there are more or fewer times, one has an unknown spelling or unit, the words
            between them do not join a start and an end, the start is after the end, a thing of the
            question is in another state ("the door is closed"), the question asks for frames,
            shares or minutes and the response names no unit, or the times are beyond the video.

    >>> [stated_interval(text) for text in ("[1, 2.5]", "from .5s to 17.83 s", "1:00 - 1:10")]
    [(1.0, 2.5), (0.5, 17.83), (60.0, 70.0)]
    >>> stated_interval('{"start": 10, "duration": 5}')
    (10.0, 15.0)
    """
    unboxed = _BOX_TOKEN.sub("", response) if response.count(BOX) > 1 else response
    text = _BEFORE_REASONS.split(certain(plain(_TAG_ENDS.sub(";", unboxed))))[0]
    segments = stated_segments(text) or [text]
    is_other = len(segments) > 1 or says_another_state(text, question)
    start, end = (-1.0, -1.0) if is_other else _repeated_times(segments[-1])
    if not 0 <= start <= end < math.inf:
        raise ParseError(
            "response",
            expected="a start and an end, start ≤ end",
            found=repr(response.strip()[:60]),
        )
    refuse_unit(response, question, times)
    refuse_beyond(start, end, times)
    return start, end


def refuse_unit(response: str, question: str, times: Sequence[float] = ()) -> None:
    """Check that a response names seconds where its question asks for frames, shares or minutes.

    If the times are 0, 1, 2, …, the video's rate is not known: its seconds are frame numbers.

    Raises:
        ParseError: the response's numbers may be in the unit of the question.
    """
    unit = _ASKS_SHARES_OR_MINUTES.search(question)
    if not unit and not _count_frames(times):
        unit = _ASKS_FRAMES.search(question)
    if not unit:
        return
    if not (_ASKS_SECONDS.search(question) or _IN_SECONDS.search(response)):
        raise ParseError(
            "response",
            expected=f"seconds, said as such, to a question for {unit[0]!r}",
            found=repr(response.strip()[:60]),
        )


def refuse_beyond(start: float, end: float, times: Sequence[float]) -> None:
    """Check an interval against a video whose frames have these times, in seconds.

    If the times are 0, 1, 2, …, the video's rate is not known, and nothing is checked.

    Raises:
        ParseError: the interval begins after the video's end, or ends more than `BEYOND` after it.
    """
    if len(times) < 2 or _count_frames(times):
        return
    last = times[-1] + (times[-1] - times[0]) / (len(times) - 1)
    if start >= last or end > (1 + BEYOND) * last + 1:
        raise ParseError(
            "response",
            expected=f"seconds within the video, which ends at {last:.2f} s",
            found=f"{start:g} to {end:g} s",
        )


def _count_frames(times: Sequence[float]) -> bool:
    """Return True for the times 0, 1, 2, …, which stand for an unknown frame rate."""
    return len(times) > 1 and all(time == frame for frame, time in enumerate(times))


def _repeated_times(text: str) -> tuple[float, float]:
    """Return `_times` of a text that may have in brackets its interval again, or its length.

    >>> _repeated_times("1:05 to 1:12 (65-72 s)"), _repeated_times("1:05 to 1:12 (5-9 s)")
    ((65.0, 72.0), (-1, -1))
    >>> _repeated_times("3 s to 7 s (4 seconds)"), _repeated_times("3 s to 7 s (5 seconds)")
    ((3.0, 7.0), (-1, -1))
    """
    text = _AGAIN_IN_SECONDS.sub(_of_clock, text)
    if _STARTS_AT.search(text):
        text = _ENDS_AT.sub(_joined, text)
    text = _last_pair(text)
    if lasting := _LASTING.search(text):
        start, end = _times(text[: lasting.start()])
        is_its_length = abs(end - start - float(lasting[1].rstrip("."))) <= ROUNDED
        return (start, end) if is_its_length else (-1, -1)
    brackets = _BRACKETS.search(text)
    inner = list(islice(numerals(_seconds_alone(brackets[1]), stretch=True), 3)) if brackets else []
    if brackets is None or not 1 <= len(inner) <= 2:
        return _times(text)
    start, end = _times(text[: brackets.start()] + text[brackets.end() :])
    if len(inner) == 2:
        again = _times(brackets[1])
        is_same = abs(start - again[0]) <= ROUNDED and abs(end - again[1]) <= ROUNDED
    else:
        is_same = _LENGTH_ALONE.fullmatch(brackets[1]) is not None
        is_same = is_same and abs(end - start - inner[0].value) <= ROUNDED
    return (start, end) if is_same else _times(text)


def _joined(ends: re.Match[str]) -> str:
    """Return " to " for words between a start and an end; the words if they deny something."""
    return ends[0] if denies(ends[0]) else " to "


def _last_pair(text: str) -> str:
    """Return the last clause of a text that has both of its times, if it says no others.

    >>> _last_pair("He starts at 12 s and sits at 19 s, so it spans 12 s - 19 s.")
    'it spans 12 s - 19 s.'
    """
    times = list(islice(numerals(_seconds_alone(text), stretch=True), 9))
    if not 2 < len(times) < 9 or len({time.value for time in times}) != 2:
        return text
    for clause in reversed(_CLAUSE_ENDS.split(text)):
        values = [time.value for time in islice(numerals(_seconds_alone(clause), stretch=True), 3)]
        if len(values) == 2:
            is_pair = len(set(values)) == 2 and not _OF_PERSON.search(clause)
            return clause if is_pair else text
    return text


def _of_clock(again: re.Match[str]) -> str:
    """Return the clock of a match of `_AGAIN_IN_SECONDS`; all of it if the seconds are others."""
    clock = next(numerals(again[1], stretch=True), None)
    is_same = clock is not None and abs(clock.value - float(again[2].rstrip("."))) <= ROUNDED
    return again[1] if is_same else again[0]


def _times(text: str) -> tuple[float, float]:
    """Return the (start, end) that a text states, in seconds; negative if it states none."""
    named = _named_times(text)
    if named:
        return named
    text = _seconds_alone(text)
    times = [_without_letters(text, time) for time in islice(numerals(text, stretch=True), 3)]
    if len(times) != 2 or times[0].is_clock != times[1].is_clock or _is_outside(text, times):
        return -1, -1
    return times[0].value, times[1].value


def _seconds_alone(text: str) -> str:
    """Return a text with clocks for compound times ("1m5s"), and without the unit "seconds"."""
    text = _LIST_MARK.sub("", _LENGTH.sub(" ", _ANGLED.sub(r"<\1>", text)))
    text = re.sub(r"(?<=\d)-seconds? mark\b", " s", text)
    text = _COMPOUND.sub(_clock, _COMMA.sub(".", text))
    text = _UP_TO.sub(" ", _UNIT.sub(" ", _ORDINAL.sub("", text)))
    return _ARROW.sub(" to ", text)


def _without_letters(text: str, time: Numeral) -> Numeral:
    """Return a numeral that ends before letters that touch it: these are left to `_BETWEEN`."""
    unit = _LETTERS.search(text, time.start, time.end)
    return time._replace(end=unit.start()) if unit else time


def _clock(compound: re.Match[str]) -> str:
    """Return `1:02:05` for a match of `_COMPOUND`, such as "1h 2m 5s"."""
    hours, minutes, seconds, *east_asian = compound.groups()
    minutes, seconds = (minutes, seconds) if minutes else east_asian
    whole, dot, part = seconds.partition(".")
    return f"{f'{hours}:' if hours else ''}{minutes:0>2}:{whole:0>2}{dot}{part}"


def _is_outside(text: str, times: Sequence[Numeral]) -> bool:
    """Return True if a text does not state its two times as an interval.

    It may deny or bound them, measure them in other units, or state something else of them.
    """
    first, second = times
    before, gap, after = text[: first.start], text[first.end : second.start], text[second.end :]
    are_joined = bool(_BETWEEN.fullmatch(gap) and gap.strip(" ("))
    if _AND.search(gap) and not (_ENDS.search(gap) or _BETWIXT.search(before)):
        are_joined = False
    subject = _SUBJECT.search(before)
    return bool(
        not are_joined
        or _is_of_another(before)
        or (subject and subject[1].casefold() not in _SUBJECTS)
        or says_unable(text)
        or denied_after(_NOT_ALL.sub("", before), whole=True)
        or denied_after(_NOT_BEYOND.sub("", after), whole=True)
        or not (_BEFORE.search(before) and _AFTER.match(after))
        or _NOT_WITHIN.search(text[: first.end])
        or any(pattern.search(text) for pattern in (_OTHER_UNITS, _LASTS, _TAKES))
    )


def _is_of_another(before: str) -> bool:
    """Return True if an only word before two times, or foreign words, name something else."""
    words = re.findall(r"[^\W\d_]+(?:_[^\W\d_]+)*", before.casefold())
    if len(words) != 1 and not is_foreign(before):
        return False
    return any(
        not (word in _SUBJECTS | _OF_TIMES or _ACTION.match(word) or _BEFORE.search(f" {word}"))
        for word in words
    )


def _named_times(text: str) -> tuple[float, float] | None:
    """Return the (start, end) of a JSON object in a text; None: it has none with such keys.

    Negative if the object is not an interval; see `_of_keys`.
    """
    begin, end = text.find("{"), text.rfind("}")
    with suppress(ParseError):
        value = loads_lenient(text[begin : end + 1])[0] if 0 <= begin < end else None
        if isinstance(value, dict):
            return _of_keys({str(key).lower().removesuffix("_time"): value[key] for key in value})
    return None


def _of_keys(fields: dict[str, object]) -> tuple[float, float] | None:
    """Return the (start, end) of an object; None: no such keys; negative: contradictory values."""
    starts = [fields.pop(key) for key in _STARTS if key in fields]
    ends = [fields.pop(key) for key in _STOPS if key in fields]
    lasts = fields.pop("duration", None)
    other_values = [
        value for key, value in fields.items() if not isinstance(value, str) or key == "unit"
    ]
    if len(starts) != 1 or (not ends and lasts is None):
        return None
    (start, is_clock), (last, _) = _second(starts[0]), _second(lasts)
    end, is_same = _second(ends[0]) if len(ends) == 1 else (start + last, is_clock)
    if (
        other_values
        or is_clock != is_same
        or (lasts is not None and not math.isclose(end - start, last))
    ):
        return -1, -1
    return start, end


def _second(value: object) -> tuple[float, bool]:
    """Return (seconds, True for a clock) of a value of JSON; NaN if it is not one time."""
    text = _seconds_alone(json.dumps(value))
    times = list(islice(numerals(text, stretch=True), 2))
    if len(times) != 1 or _OTHER_UNITS.search(text):
        return math.nan, False
    return times[0].value, times[0].is_clock
