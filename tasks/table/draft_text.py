"""Find out if text answers look like something else: a time, a range, a number with its unit."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from harness.tasks.table.cells import NUMBER, THOUSANDS, clock_span, right_texts

UNIT = r"[A-Za-zµ°Å²³/^%‰€$£¥\"'′″]{1,12}(?:\s?(?:per\s)?[A-Za-z²³/]{1,8})?"
ABOUT = r"(?:about|approx(?:\.|imately)?|around|roughly|nearly|~|≈|<|>|≤|≥|[€$£¥])?\s*"
MARKUP = re.compile(
    r"<loc_?\d+>|</?box>|<\|(?:box_start|det|begin_of_box)\|>|\bb?box_2d\b|<points?\s"
    r"|\[\s*\d+(?:\.\d+)?(?:\s*,\s*\d+(?:\.\d+)?){3}\s*\]",
    re.IGNORECASE,
)
"""Places in the forms in which models write them: `<loc0120>`, `<box>[[10, 20, 30, 40]]</box>`."""
LOOKS: Mapping[str, Callable[[str], object]] = {
    "an interval of time": lambda text: clock_span(text),
    "a date": re.compile(r"\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{2,4}").fullmatch,
    "a time": re.compile(r"(?:\d{1,2}:)?\d{1,2}:\d{2}(?:[.,]\d+)?(?:\s?[ap]m)?", re.I).fullmatch,
    "a share in percent": re.compile(rf"{ABOUT}{NUMBER}\s*(?:%|percent|per cent)", re.I).fullmatch,
    "a range": re.compile(rf"{NUMBER}\s*(?:-|–|—|~|to|\.\.)\s*{NUMBER}\s*(?:{UNIT})?").fullmatch,
    "several numbers": re.compile(
        rf"[\[(<{{]*\s*{NUMBER}\.?(?:[\])>}}]*(?:[,;\s]+|(?<=>))[\[(<{{]*\s*{NUMBER}\.?)+[\])>}}]*"
    ).fullmatch,
    "places in a model's own form": MARKUP.search,
    "several parts that all belong to it": re.compile(r"<and>|\[and\]|<&>", re.I).search,
    "an answer between marks": re.compile(r"</?answer>|\\boxed\s*\{", re.I).search,
    "a solution with its answer": re.compile(
        r"\w.*(?:####|\banswer\s?(?:is\b|:)|答案[是为為：:])\s*\S.*", re.I | re.S
    ).fullmatch,
    "a number": re.compile(rf"{ABOUT}{NUMBER}").fullmatch,
    "a number with a unit": re.compile(rf"{ABOUT}{NUMBER}\s*(?:{UNIT})?").fullmatch,
    "a fraction": re.compile(r"\d+\s?/\s?\d+").fullmatch,
    "yes or no with a sentence": re.compile(
        r"(?:yes|no)\b\s?[,.;:–—-].*\w.*", re.I | re.S
    ).fullmatch,
    "yes or no": re.compile(r"(?:yes|no|true|false)[.!]?", re.I).fullmatch,
    "a letter of an option": re.compile(r"(?:option|choice)?[\s_]*\(?[A-Ha-h][).]?").fullmatch,
    "an option with its letter": re.compile(r"\(?[A-Ha-h][).:]\s.*", re.S).fullmatch,
    "the name of an option": re.compile(
        r"(?:option|choice|answer|candidate)[\s_-]*\w{1,2}", re.I
    ).fullmatch,
}
"""Function that returns a true value for a text that looks like something, by its name."""
FEW = 0.5
"""Least share of a field's answers that have to look like something else."""

NO_VALUE = re.compile(
    r"n/a|n\.a\.?|nan|null|<na>|[-–—?]{1,3}|(?:un|not[ -]?)answerable\.?", re.IGNORECASE
)
"""Texts by which tables say that there is no value."""
LETTERS = re.compile(r"[A-H](?:\s*(?:[,;&/]|and)\s*[A-H])+")
"""Several letters of options."""
ASKS_COUNT = re.compile(
    r"how (?:many|much)|number of|wie ?viele?|combien|cu[aá]nt[ao]s|quant[aoei]s?\b|hoeveel|сколько"
    r"|多少|[几幾何](?:个|個|つ|人|名)|いくつ|몇",
    re.IGNORECASE,
)
"""Words of questions whose answer is a number."""


def unlike_others(values: Sequence[object], questions: Sequence[str]) -> str:
    """Return a doubt about an answer that stands for no value, or is not the number asked for."""
    texts = [str(value).strip() for value in values]
    asking = sum(bool(ASKS_COUNT.search(question)) for question in questions)
    odd = list(dict.fromkeys(text for text in texts if not re.fullmatch(NUMBER, text)))
    if odd and asking > len(texts) / 2:
        listed = ", ".join(f"{text!r:.30}" for text in odd[:3])
        return f"questions ask for numbers, and answers are not: {listed}. Is the form number?"
    if any(re.fullmatch("[A-H]", text) for text in odd) and (
        several := next(filter(LETTERS.fullmatch, odd), "")
    ):
        return f"{several!r} has several letters: they count only if a response writes them so"
    if missing := next((text for text in odd if NO_VALUE.fullmatch(text) or text == "NA"), ""):
        return f"{missing!r} may stand for no value: is it a right text? If not, remove the record"
    return ""


def first_of_thousands(
    values: Sequence[object], questions: Sequence[str], *, has_semicolons: bool
) -> str:
    """Return the first number whose point may part thousands: `1.250`; "" if one is `1.25`.

    It may in tables with semicolons, and where questions ask how many there are.
    """
    texts = [str(value).strip() for value in values if isinstance(value, str) and "." in value]
    ask_counts = all(map(ASKS_COUNT.search, questions)) and bool(questions)
    is_fitting = (has_semicolons or ask_counts) and all(map(THOUSANDS.fullmatch, texts))
    return texts[0] if texts and is_fitting else ""


def looks_like(values: Sequence[object]) -> tuple[str, str] | None:
    """Return (name from `LOOKS`, answer) of the first of many answers that look like one of these.

    None if fewer than a share of `FEW` do.
    """
    texts = [str(value).strip() for value in chain(*map(right_texts, values))]
    kinds = [(next((n for n, fits in LOOKS.items() if fits(text)), ""), text) for text in texts]
    odd = [(name, text) for name, text in kinds if name]
    return odd[0] if odd and len(odd) >= FEW * len(texts) else None
