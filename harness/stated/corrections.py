"""Find the text after the last correction of a response."""

import re

from harness.errors import ParseError
from harness.stated.refusals import refuse_tool_call

LONGEST = 20_000
"""Characters after the thought in which an answer in words is looked for."""
_TAKES_BACK = re.compile(
    r"(?:\A|[.!?…,;:)\n—–-]\s{0,4})(?i:(?:but|oh|no|so|well)[,\s]{1,4})?"
    r"(?i:wait|hm{2,}|actually|sorry|oops|scratch that|on second thoughts?|correction|my mistake"
    r"|i was wrong|let me re\w{2,12}|i mean)\b"
    r"|[.!?…,>)\]\"\n]\s{0,4}(?i:no)\s{0,4}[,.!:—]"
    r"|\b(?i:or (?:rather|better))\b,?|[(.!?\n]\s{0,4}(?i:edit|corrected|correction|update)\s{0,4}:"
    r"|[(,]\s{0,4}(?i:should be|make that|i meant|typo)\b(?:,? (?i:meant))?:?"
    r"|\b(?i:corrected|changed|revised|updated) to\b"
    r"|(?:\A|[.!?,;\n]\s{0,4})(?i:(?:up)?on (?:further |closer )?"
    r"(?:reflection|reconsideration|review|inspection)|looking (?:again|closer))\b"
    r"|等等|等一下|不对|更正"
)


def after_correction(text: str) -> str:
    """Return the text after its last correction; all of it where nothing is taken back.

    Raises:
        ParseError: it is longer than any answer in words, or calls a tool.

    >>> after_correction("A. Wait, no, B."), after_correction("They wait for the bus.")
    (' B.', 'They wait for the bus.')
    """
    if len(text) > LONGEST:
        raise ParseError(
            "response", expected=f"an answer of at most {LONGEST} characters", found=str(len(text))
        )
    refuse_tool_call(text)
    end = 0
    for found in _TAKES_BACK.finditer(text):
        end = found.end()
    return text[end:]
