"""Text around an answer in every grammar: the frame that the answer is for, and the reasoning."""

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
"""Words before a place that is something else's."""
_DOUBTED = re.compile(
    r"\s?(?:(?i:px|pixels?|[cm]?m|in|ft)\b|[°?])|.{0,200}(?:\b(?i:if|unless)\b|\?\s{0,9}\Z)"
)
"""Words after places: a unit, a condition, a question."""

TAGS = ("<think>", "</think>", "<answer>", "</answer>")


def read_response(response: str, read: Callable[[str], Read]) -> ParseResult:
    """Read a response by a method's own rule for its answer; no response is an error.

    Args:
        response: The network's text, which may begin with `<frame>k</frame>` for a video.
        read: Is given what follows the thought and the frame. Its ParseError is the result's
            error.

    Raises:
        HarnessError: `read` raised something else, which is a fault of the method.
    """
    frame, think, said = take_apart(response)
    try:
        if think and not said.strip():
            raise ParseError("response", expected="an answer", found="only reasoning")
        said = own_turn(said)
        answer = tag_text(said, "answer")
        if answer is None and "<answer>" not in said:
            refuse_tool_call(said)
        _refuse_denied(said if answer is None else answer)
        items, notes = read(said)
    except ParseError as error:
        return ParseResult(think=think, frame=frame, error=str(error))
    except (HarnessError, ImportError, MemoryError):  # which are told as what they are
        raise
    except Exception as error:
        raise HarnessError(
            f"reading the response {response[:200]!r}",
            expected="objects, or a ParseError",
            found=describe_error(error),
            fix="This is a fault of the model's grammar.",
        ) from error
    return ParseResult(items=items, think=think, frame=frame, notes=notes)


def _refuse_denied(said: str) -> None:
    """Raise where words before or after the places deny them, doubt them, or make them others'."""
    before, bracket, _ = re.split(r"([\[{(<`]|\Z)", said[:2000], maxsplit=1)
    after = re.split(r"[\]})>]", said[-2000:])[-1].strip(" `").partition("\n")[0].partition(". ")[0]
    if bracket and (
        denied_after(before, whole=True) or says_unable(before) or _BESIDE.search(before)
    ):
        raise ParseError("response", expected="places", found=repr(before[:60]))
    if bracket and (denied_after(after, whole=True) or _DOUBTED.match(after)):
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
    if any(tag in think for tag in TAGS):
        raise ParseError("reasoning to write", expected="no tag of the grammar", found=think[:60])
    return f"{frame_tag(frame)}<think>{think}</think>"
