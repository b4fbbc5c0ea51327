"""What answers look like that are texts: a time, a range, a share, a number with its unit."""

import re
from collections.abc import Callable, Mapping, Sequence

from harness.tasks.table.cells import NUMBER, clock_span

UNIT = r"[A-Za-zµ°Å²³/^%‰€$£¥\"'′″]{1,12}(?:\s?(?:per\s)?[A-Za-z²³/]{1,8})?"
ABOUT = r"(?:about|approx(?:\.|imately)?|around|roughly|nearly|~|≈|<|>|≤|≥|[€$£¥])?\s*"
LOOKS: Mapping[str, Callable[[str], object]] = {
    "an interval of time": lambda text: clock_span(text),
    "a time": re.compile(r"(?:\d{1,2}:)?\d{1,2}:\d{2}(?:[.,]\d+)?(?:\s?[ap]m)?", re.I).fullmatch,
    "a share in percent": re.compile(rf"{ABOUT}{NUMBER}\s*(?:%|percent|per cent)", re.I).fullmatch,
    "a range": re.compile(rf"{NUMBER}\s*(?:-|–|—|~|to|\.\.)\s*{NUMBER}\s*(?:{UNIT})?").fullmatch,
    "several numbers": re.compile(
        rf"[\[(<]*{NUMBER}(?:[\])>]*[,;\s]+[\[(<]*{NUMBER})+[\])>]*"
    ).fullmatch,
    "a number with a unit": re.compile(rf"{ABOUT}{NUMBER}\s*(?:{UNIT})?").fullmatch,
    "yes or no": re.compile(r"(?:yes|no|true|false)[.!]?", re.I).fullmatch,
    "a letter of an option": re.compile(r"(?:option|choice)?[\s_]*\(?[A-Ha-h][).]?").fullmatch,
    "an option with its letter": re.compile(r"\(?[A-Ha-h][).:]\s.*", re.S).fullmatch,
    "the name of an option": re.compile(
        r"(?:option|choice|answer|candidate)[\s_-]*\w{1,2}", re.I
    ).fullmatch,
}
"""What tells that a text looks like something else, by the name of that."""
FEW = 0.5
"""Share of the answers from which they look like it."""


def looks_like(values: Sequence[object]) -> tuple[str, str] | None:
    """Return what most answers look like, and the first of them; None for words."""
    texts = [str(value).strip() for value in _flat(values)]
    kinds = [(next((n for n, fits in LOOKS.items() if fits(text)), ""), text) for text in texts]
    odd = [(name, text) for name, text in kinds if name]
    return odd[0] if odd and len(odd) >= FEW * len(texts) else None


def _flat(values: Sequence[object]) -> list[object]:
    return [part for value in values for part in (value if isinstance(value, list) else [value])]
