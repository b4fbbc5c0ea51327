"""Intervals in seconds in responses about Charades-STA."""

import re

from harness.errors import ParseError
from harness.responses import MAX_TEXT, TOO_MANY_DIGITS, finite_numbers, loads_lenient
from harness.types import Interval

EXAMPLE = "a specific example is : 20.8 - 30.0 seconds"
"""Words of the official prompt, which a response may repeat."""
KEYWORDS = ("start", "end", "happen")
CLOCK = r"\b(\d{1,2}:\d{2}(?::\d{2})?)"
CLOCK_RANGE = re.compile(rf"{CLOCK}\s*[–-]\s*{CLOCK[2:]}\b")
RANGE = re.compile(r"(\d+(?:\.\d+)?)\s*[–-]\s*(\d+(?:\.\d+)?)")
RANGE_OF_SECONDS = re.compile(
    r"(\d+(?:\.\d+)?)\s*(?:s\s*)?[–-]\s*(\d+(?:\.\d+)?)"  # `\s*s?\s*` would be quadratic
)
CLOCK_TIME = re.compile(rf"{CLOCK}\b")
NUMBER = re.compile(r"\b(\d+(?:\.\d+)?)\b")


def charades_interval(response: str) -> Interval | None:
    r"""The interval of a response, or None.

    Equal to `extract_time` of charades_sta/utils.py (lmms-eval, 75571cf). Lines and sentences with
    a word such as `start` or `end` are looked at, or else all of them, for the first of: a range of
    clock times, a range of numbers, two clock times, the first numbers of two sentences, and a
    range of numbers with `s` behind them. `to` is taken for a dash. An interval that ends before it
    begins is turned round. A response with a number of more than 64 digits has none.

    >>> charades_interval("From 24.3 to 30.4 seconds."), charades_interval("It starts at 3.")
    (Interval(start=24.3, end=30.4), None)
    >>> charades_interval("01:10 - 01:05"), charades_interval("Start: 2\nEnd: 7")
    (Interval(start=65.0, end=70.0), Interval(start=2.0, end=7.0))
    """
    text = response[:MAX_TEXT].lower().replace(EXAMPLE, "").replace("to", "-")
    if TOO_MANY_DIGITS.search(text):
        return None
    sentences = re.split(r"[!?\n]", text)
    looked_at = [
        sentence for sentence in sentences if any(word in sentence for word in KEYWORDS)
    ] or sentences
    pair = (
        _first_range(CLOCK_RANGE, looked_at)
        or _first_range(RANGE, looked_at)
        or _two([time for sentence in looked_at for time in CLOCK_TIME.findall(sentence)])
        or _two([number[1] for sentence in looked_at if (number := NUMBER.search(sentence))])
        or _first_range(RANGE_OF_SECONDS, looked_at)
    )
    return None if pair is None else Interval(*sorted(map(_seconds, pair)))


def _first_range(form: re.Pattern[str], sentences: list[str]) -> tuple[str, str] | None:
    match = next(filter(None, (form.search(sentence) for sentence in sentences)), None)
    return None if match is None else (match[1], match[2])


def _two(times: list[str]) -> tuple[str, str] | None:
    return (times[0], times[1]) if len(times) > 1 else None


def _seconds(time: str) -> float:
    """A number of seconds, also of `minutes:seconds` and `hours:minutes:seconds`."""
    seconds = 0.0
    for part in time.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds


def json_interval(response: str) -> Interval | None:
    r"""The interval of a JSON value `[s, e]`, with `start` and `end`, or with one under `time`.

    >>> json_interval('```json\n{"start": 2, "end": 7.5}\n```'), json_interval("[3, 1]")
    (Interval(start=2.0, end=7.5), Interval(start=1.0, end=3.0))
    """
    try:
        value, _ = loads_lenient(response)
        if isinstance(value, dict):
            value = value.get("time", [value.get("start"), value.get("end")])
        return Interval(*sorted(finite_numbers(value, 2, "interval")))
    except ParseError:
        return None
