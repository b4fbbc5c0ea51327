"""Readers of a time interval from a response, for temporal grounding (Charades-STA).

Each takes the response and returns an `Interval` in seconds, start ≤ end, or None if it finds none.
"""

import re

from harness.errors import ParseError
from harness.responses import MAX_TEXT, TOO_MANY_DIGITS, finite_numbers, loads_lenient
from harness.types import Interval

EXAMPLE = "a specific example is : 20.8 - 30.0 seconds"
"""Words of the official prompt, which are removed, as a response may repeat them."""
KEYWORDS = ("start", "end", "happen")
"""If any sentence has one of these, only such sentences are searched."""
CLOCK = r"\b(\d{1,2}:\d{2}(?::\d{2})?)"  # 1:05 or 00:01:05
CLOCK_RANGE = re.compile(rf"{CLOCK}\s*[–-]\s*{CLOCK[2:]}\b")  # 1:05 - 1:10
RANGE = re.compile(r"(\d+(?:\.\d+)?)\s*[–-]\s*(\d+(?:\.\d+)?)")  # 24.3 - 30.4
RANGE_OF_SECONDS = re.compile(  # 24.3 s - 30.4
    r"(\d+(?:\.\d+)?)\s*(?:s\s*)?[–-]\s*(\d+(?:\.\d+)?)"  # `\s*s?\s*` would be quadratic
)
CLOCK_TIME = re.compile(rf"{CLOCK}\b")
NUMBER = re.compile(r"\b(\d+(?:\.\d+)?)\b")  # 24.3


def charades_interval(response: str) -> Interval | None:
    r"""Return the interval that `extract_time` of lmms-eval's charades_sta/utils.py reads.

    It searches the sentences with a word of `KEYWORDS`, or else all, for the first of these forms:
    a range of clock times, a range of numbers, two clock times, the first numbers of two sentences,
    and a range of numbers with `s` after the first. `to` counts as a dash. An interval that ends
    before it begins is turned round (commit 75571cf). In a response with a number of more than 64
    digits no interval is read.

    >>> charades_interval("From 24.3 to 30.4 seconds."), charades_interval("It starts at 3.")
    (Interval(start=24.3, end=30.4), None)
    >>> charades_interval("01:10 - 01:05"), charades_interval("Start: 2\nEnd: 7")
    (Interval(start=65.0, end=70.0), Interval(start=2.0, end=7.0))
    """
    text = response[:MAX_TEXT].lower().replace(EXAMPLE, "").replace("to", "-")
    if TOO_MANY_DIGITS.search(text):
        return None
    sentences = re.split(r"[!?\n]", text)
    searched = [
        sentence for sentence in sentences if any(word in sentence for word in KEYWORDS)
    ] or sentences
    pair = (
        _first_range(CLOCK_RANGE, searched)
        or _first_range(RANGE, searched)
        or _first_two([time for sentence in searched for time in CLOCK_TIME.findall(sentence)])
        or _first_two([number[1] for sentence in searched if (number := NUMBER.search(sentence))])
        or _first_range(RANGE_OF_SECONDS, searched)
    )
    return None if pair is None else Interval(*sorted(map(_seconds, pair)))


def _first_range(form: re.Pattern[str], sentences: list[str]) -> tuple[str, str] | None:
    """Return the two groups of the first match of a pattern in any sentence; None: no match."""
    for sentence in sentences:
        if match := form.search(sentence):
            return match[1], match[2]
    return None


def _first_two(times: list[str]) -> tuple[str, str] | None:
    """Return the first two texts; None if there are fewer."""
    return (times[0], times[1]) if len(times) > 1 else None


def _seconds(time: str) -> float:
    """Return the seconds of `24.3`, `1:05` (minutes:seconds) or `00:01:05` (with hours)."""
    seconds = 0.0
    for part in time.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds


def json_interval(response: str) -> Interval | None:
    r"""Return the interval of a response in JSON: `[start, end]`, or an object.

    The object has `start` and `end`, or `[start, end]` under `time`. Known faults of JSON are
    repaired first (`loads_lenient`).

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
