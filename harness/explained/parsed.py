"""Parsed responses of a recorded prediction, for `harness explain`.

An entry has the response's tags and the objects that the model's grammar read, in pixels of the
original image, or the error that stopped the grammar.
"""

import re
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from harness.leaderboards.images import describe_answer
from harness.models.grammar import split_frame
from harness.responses import MAX_TEXT, tag_text
from harness.run.predict import FIELDS_OF_FORM
from harness.thoughts import reasoning
from harness.types import Answer, Parsed, ParsedObject, Prediction

TAG = re.compile(r"<([a-z_]{1,20})>")  # `<rethink>`
SEPARATE_TAGS = ("think", "answer", "frame")
"""Tags that have entries of their own in a `ResponsePart`."""
MAX_TAGS = 6  # other tags that are shown: a response may repeat thousands


class PartObject(TypedDict):
    """An object as the grammar read it, in pixels of the original image."""

    box: list[float] | None
    """[left, top, right, bottom]."""
    positive: list[list[float]]
    """Points [x, y] on the object."""
    negative: list[list[float]]
    """Points [x, y] beside the object."""
    phrase: NotRequired[str]


class ResponsePart(TypedDict):
    """Parts of a response, and what the grammar read in it."""

    form: str
    """The form of answer that was read."""
    frame: int | None
    """Index of the frame to which the response refers."""
    think: str
    """The reasoning before the answer."""
    tags: dict[str, str]
    """Texts of other tags by name."""
    phrase: str
    objects: list[PartObject]
    answer: str | None
    """The answer in words, for forms other than masks."""
    error: str | None


def parsed_parts(prediction: Prediction) -> list[ResponsePart]:
    """Return the parts of each parsed response: the last ones, after earlier turns of a model."""
    responses = prediction.responses[len(prediction.responses) - len(prediction.parsed) :]
    return [
        _part(parsed, response, prediction.answer)
        for parsed, response in zip(prediction.parsed, responses, strict=True)
    ]


def _part(parsed: Parsed, response: str, answer: Answer | None) -> ResponsePart:
    """Return the parts of one response, with what was parsed from it."""
    frame, text_after_frame = split_frame(response)
    names = dict.fromkeys(TAG.findall(text_after_frame[:MAX_TEXT]))
    other_names = [name for name in names if name not in SEPARATE_TAGS][:MAX_TAGS]
    texts = {name: tag_text(text_after_frame, name) for name in other_names}
    return {
        "form": str(parsed.form),
        "frame": frame if parsed.frame is None else parsed.frame,
        "think": reasoning(text_after_frame),
        "tags": {name: text for name, text in texts.items() if text is not None},
        "phrase": parsed.phrase,
        "objects": [_object(item) for item in parsed.objects],
        "answer": _answer_text(parsed, answer),
        "error": parsed.error or None,
    }


def _object(item: ParsedObject) -> PartObject:
    plain: PartObject = {
        "box": None if item.box is None else list(item.box),
        "positive": [list(point) for point in item.positive],
        "negative": [list(point) for point in item.negative],
    }
    if item.phrase:
        plain["phrase"] = item.phrase
    return plain


def _answer_text(parsed: Parsed, answer: Answer | None) -> str | None:
    """Return the fields of an answer that belong to a parsed form, in words; None without any.

    Masks are left out: `explained.masks` describes them.
    """
    if answer is None or parsed.error:
        return None
    fields = [name for name in FIELDS_OF_FORM[parsed.form] if not name.endswith(("masks", "track"))]
    answer_of_form = Answer(**{name: getattr(answer, name) for name in fields})
    return describe_answer(answer_of_form) or None


def lines(part: ResponsePart, *, protocol: str = "") -> list[str]:
    """Return one parsed response in words, a line for each entry.

    Args:
        part: The parsed response.
        protocol: Name of the protocol, if it could read a response that the grammar could not.
    """
    text = [part["form"]]
    if part["frame"] is not None:
        text.append(f"frame: {part['frame']}")
    if part["think"]:
        text.append(f"think: {part['think']}")
    text += [f"{name}: {value}" for name, value in part["tags"].items()]
    if part["phrase"]:
        text.append(f"phrase: {part['phrase']}")
    text += [
        f"object {number}: {_position(item)}"
        for number, item in enumerate(part["objects"], start=1)
    ]
    if part["answer"]:
        text.append(f"answer: {part['answer']}")
    if part["error"] is not None:
        outcome = (
            f"read by {protocol}, not by the model's grammar" if protocol else "cannot be read"
        )
        text.append(f"{outcome}: {part['error']}")
    return text


def _position(item: PartObject) -> str:
    """Return an object's box and points in words."""
    parts = [] if item["box"] is None else [f"box {_numbers(item['box'])}"]
    parts += [f"on it {_numbers(point)}" for point in item["positive"]]
    parts += [f"not on it {_numbers(point)}" for point in item["negative"]]
    if "phrase" in item:
        parts.append(repr(item["phrase"]))
    return ", ".join(parts)


def _numbers(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:.10g}" for value in values) + "]"
