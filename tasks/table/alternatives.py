"""Find texts that may hold several right answers between marks: `us - ultrasound#us`.

Marks are also parts of names, numbers, addresses and programs: those do not count.
"""

import re
from collections.abc import Iterable, Mapping
from html import unescape

from harness.tasks.table.cells import right_texts

WORD = r"[^\W_]"
MARKS: Mapping[str, re.Pattern[str]] = {
    "strong": re.compile(
        r"(?i:<\|?(?:sep|or)\|?>|\[sep\])"
        rf"|(?<=[\w.)\"'])(?:\s*(?:\|\|?|&&|｜)\s*|#|\s+#\s+|\s+##\s+)(?=[(\"']?{WORD})"
        r"|(?<=[\w.)\"'])\s*;\s+(?=[(\"']?(?-i:[A-Z]))"  # prose goes on in small letters
    ),
    "weak": re.compile(
        rf"(?<=[\w.)\"'])(?:\s*[;；]\s*|\s+[/／]\s+|\s+or\s+|\s*\n\s*)(?=[(\"']?{WORD})"
        r"|(?<=[a-z]{3})/(?=[a-z]{3})"
    ),
}
"""Marks between texts: those that prose does not have, and those that also part a single answer."""
FEW_WORDS = 4
"""Most words of each part between weak marks: longer parts are sentences."""
NEED_BLANKS = ("/", "or")
"""Marks that are parts of words without blanks around them."""
ADDRESS = re.compile(r"\S+://\S+|\bwww\.\S+|\S*/\S*/\S*|\S*\.\w+/\S*")
AND_OR = re.compile(r"\band/or\b|\d\s*[A-Za-z]+/[A-Za-z]+", re.IGNORECASE)
"""Words with a stroke that part nothing: and/or, and units behind their number."""
PROGRAM = re.compile(r"[{}=\\$`\[]|\w\(|;\s*\Z")
"""Signs of programs, formulas and tables."""


def mark_in(text: str) -> str:
    """Return the mark between the words of a text that may hold several right ones; "" else.

    >>> [mark_in(text) for text in ("us - ultrasound#us", "grey; gray", "sofa/couch", "C# code")]
    ['#', ';', '/', '']
    >>> [mark_in(f"The shoes are not visible; {end} them") for end in ("We cannot see", "it hides")]
    [';', '']
    >>> [mark_in(text) for text in ("cats and/or dogs", "60 miles/hour", "a.com/b#c", "R&amp;B")]
    ['', '', '', '']
    """
    plain = AND_OR.sub(" ", ADDRESS.sub(" ", unescape(text.strip())))
    if PROGRAM.search(re.sub(r"(?i:\[sep\])", "", plain)):
        return ""
    match = MARKS["strong"].search(plain)
    if match is None:
        is_short = all(len(part.split()) <= FEW_WORDS for part in MARKS["weak"].split(plain))
        match = MARKS["weak"].search(plain) if is_short else None
    if match is None:
        return ""
    bare = match[0].strip()
    return f" {bare} " if match[0] != bare and bare in NEED_BLANKS else bare or "\n"


def marked_text(values: Iterable[object]) -> tuple[str, str] | None:
    """Return (mark, text) of the first cell that is one text with a mark; None if there is none.

    A list of several right texts says itself what the answers are.
    """
    for value in values:
        texts = right_texts(value)
        if len(texts) == 1 and isinstance(texts[0], str) and (mark := mark_in(texts[0])):
            return mark, texts[0]
    return None
