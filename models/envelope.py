"""Parse and write what surrounds the answer in every grammar: `<frame>`, `<think>`, `<answer>`.

A method's `Prompt.parse` calls `read_response` with a function that reads the answer itself;
`Prompt.write` calls `begin_response`.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

from harness.errors import HarnessError, ParseError
from harness.models.grammar import Item, ParseResult, frame_tag, take_apart
from harness.plugins import describe_error
from harness.responses import tag_text
from harness.stated.corrections import own_turn
from harness.stated.refusals import denied_after, refuse_tool_call, says_unable

Read: TypeAlias = tuple[tuple[Item, ...], tuple[str, ...]]
"""The objects of an answer, and notes of the repairs that reading them took."""

_BESIDE = re.compile(
    r"(?i:\b(?:near|outside|of|to|from|beside|behind|above|below|under|over|except|excluding|unlike"
    r"|without|e\.g\.|example|was)[\s:,]{0,3}\Z)"
)
"""Matches the end of a text before a place if the place belongs to another object: "left of ",
"not the one near: "."""
_DOUBTED = re.compile(
    r"\s?(?:(?i:px|pixels?|[cm]?m|in|ft)\b|[°?])|.{0,200}(?:\b(?i:if|unless)\b|\?\s{0,9}\Z)"
)
"""Matches a text after places that makes them doubtful: a unit (" px", "°"), a condition (" if it
is red") or a question (", or not?")."""

GRAMMAR_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


def read_response(response: str, read: Callable[[str], Read]) -> ParseResult:
    """Read a response with a method's own reader of the answer.

    Whatever the network wrote, this returns: an unreadable response is a result with an `error`.

    Args:
        response: The network's text, which may begin with `<frame>k</frame>` for a video.
        read: Reads the text after the thought and the frame; a ParseError that it raises becomes
            the `error` of the result.

    Raises:
        HarnessError: `read` raised any other exception, which is a fault of the method.
    """
    frame, think, text = take_apart(response)
    try:
        if think and not text.strip():
            raise ParseError("response", expected="an answer", found="only reasoning")
        text = own_turn(text)
        answer = tag_text(text, "answer")
        if answer is None and "<answer>" not in text:
            refuse_tool_call(text)
        _refuse_denied(text if answer is None else answer)
        items, notes = read(text)
    except ParseError as error:
        return ParseResult(think=think, frame=frame, error=str(error))
    except (HarnessError, ImportError, MemoryError):  # these state their own cause
        raise
    except Exception as error:
        raise HarnessError(
            f"reading the response {response[:200]!r}",
            expected="objects, or a ParseError",
            found=describe_error(error),
            fix="This is a fault of the model's grammar.",
        ) from error
    return ParseResult(items=items, think=think, frame=frame, notes=notes)


def _refuse_denied(text: str) -> None:
    """Raise ParseError if the words around the places deny or doubt them, or name another object.

    It reads the words before the first bracket and the sentence after the last one, at most 2000
    characters at each end.
    """
    # `\Z` always matches: without a bracket the split yields "" in its place.
    before, bracket, _ = re.split(r"([\[{(<`]|\Z)", text[:2000], maxsplit=1)
    if not bracket:
        return
    if denied_after(before, whole=True) or says_unable(before) or _BESIDE.search(before):
        raise ParseError("response", expected="places", found=repr(before[:60]))
    last_words = re.split(r"[\]})>]", text[-2000:])[-1].strip(" `")
    after = last_words.partition("\n")[0].partition(". ")[0]
    if denied_after(after, whole=True) or _DOUBTED.match(after):
        raise ParseError("response", expected="places", found=repr(after[:60]))


def begin_response(think: str | None, *, frame: int | None) -> str:
    """Return the text of a response before its answer; `think=None` leaves the reasoning out.

    Raises:
        ParseError: `think` holds a tag of the grammar.

    >>> begin_response("It is red.", frame=3)
    '<frame>3</frame><think>It is red.</think>'
    """
    if think is None:
        return frame_tag(frame)
    if any(tag in think for tag in GRAMMAR_TAGS):
        raise ParseError("reasoning to write", expected="no tag of the grammar", found=think[:60])
    return f"{frame_tag(frame)}<think>{think}</think>"
