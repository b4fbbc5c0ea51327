"""Find out if text answers look like something else: a time, a range, a number with its unit."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from harness.tasks.table.cells import NUMBER, clock_span, right_texts

UNIT = r"[A-Za-zµ°Å²³/^%‰€$£¥\"'′″]{1,12}(?:\s?(?:per\s)?[A-Za-z²³/]{1,8})?"
ABOUT = r"(?:about|approx(?:\.|imately)?|around|roughly|nearly|~|≈|<|>|≤|≥|[€$£¥])?\s*"
LOOKS: Mapping[str, Callable[[str], object]] = {
    "an interval of time": lambda text: clock_span(text),
    "a time": re.compile(r"(?:\d{1,2}:)?\d{1,2}:\d{2}(?:[.,]\d+)?(?:\s?[ap]m)?", re.I).fullmatch,
    "a share in percent": re.compile(rf"{ABOUT}{NUMBER}\s*(?:%|percent|per cent)", re.I).fullmatch,
    "a range": re.compile(rf"{NUMBER}\s*(?:-|–|—|~|to|\.\.)\s*{NUMBER}\s*(?:{UNIT})?").fullmatch,
    "several numbers": re.compile(
        rf"[\[(<{{]*{NUMBER}(?:[\])>}}]*(?:[,;\s]+|(?<=>))[\[(<{{]*{NUMBER})+[\])>}}]*"
    ).fullmatch,
    "a number with a unit": re.compile(rf"{ABOUT}{NUMBER}\s*(?:{UNIT})?").fullmatch,
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


def looks_like(values: Sequence[object]) -> tuple[str, str] | None:
    """Return (name from `LOOKS`, answer) of the first of many answers that look like one of these.

    None if fewer than a share of `FEW` do.
    """
    texts = [str(value).strip() for value in chain(*map(right_texts, values))]
    kinds = [(next((n for n, fits in LOOKS.items() if fits(text)), ""), text) for text in texts]
    odd = [(name, text) for name, text in kinds if name]
    return odd[0] if odd and len(odd) >= FEW * len(texts) else None
