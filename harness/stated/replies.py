"""Reader of the letter that is the last turn of a transcript without turns of a user."""

import re
from collections.abc import Sequence

from harness.stated.option_text import options_by_letter

OTHER_ONE = re.compile(
    r"\b(?i:(?:the (?:other|first|second|third|fourth|fifth|last|former|latter)|another)"
    r"(?=\W*(?:\Z|[.,;!?\n])|\s(?:ones?|options?|choices?|answers?|is|are|was|were|would|will"
    r"|seems?|looks?)\b)"
    r"|(?:i|we)(?: would|['’]d)(?: rather)? (?:say|choose|pick|select|go|guess|answer)\b)"
)
"""Words by which a sentence names an option without its letter or text, or chooses again."""
_USER_LABEL = re.compile(r"(?i:\b(?:user|human|question|q)\s?:)")
_REPLY = re.compile(r"(?i:\bassistant\s?:)\s?[*_(]{0,4}([A-Z])[*_).]{0,4}\s{0,9}\Z")
"""The last turn of a transcript, which is a letter: "Assistant: B."."""


def reply(text: str, letters: str, options: Sequence[str]) -> set[str]:
    """Return the letter that is the last turn of a transcript without turns of a user.

    Text before it that names an option, or that may do so since the options are not known, may be
    the response's own answer, and the rest made up.
    """
    reply = _REPLY.search(text)
    before = text[: reply.start()].casefold() if reply else ""
    names = [name for _, name in options_by_letter(options) if name]
    names_option = any(name in before for name in names) if names else bool(before.strip(" .…\n"))
    if reply is None or _USER_LABEL.search(before) or OTHER_ONE.search(before) or names_option:
        return set()
    return {reply[1]} & set(letters)


def replies_another(text: str, letter: str) -> bool:
    """Return True if another letter is the last turn of a transcript without turns of a user."""
    reply = _REPLY.search(text)
    return bool(reply and reply[1] != letter and not _USER_LABEL.search(text, endpos=reply.start()))
