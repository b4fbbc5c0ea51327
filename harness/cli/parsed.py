"""Parsed responses of a record: objects in pixels of the image, or why there are none."""

import re
from collections.abc import Sequence
from typing import NotRequired, TypedDict

from harness.leaderboards.images import describe_answer
from harness.models.grammar import split_frame
from harness.responses import MAX_TEXT, tag_text
from harness.run.predict import SAYS
from harness.thoughts import reasoning
from harness.types import Answer, Parsed, ParsedObject, Prediction

TAG = re.compile(r"<([a-z_]{1,20})>")
OWN_LINE = ("think", "answer", "frame")
"""Tags that are shown under their own names."""
MAX_TAGS = 6


class PartObject(TypedDict):
    """An object as the grammar read it."""

    box: list[float] | None
    positive: list[list[float]]
    negative: list[list[float]]
    phrase: NotRequired[str]


class ResponsePart(TypedDict):
    """Parts of a response, and what the grammar read in it."""

    form: str
    frame: int | None
    think: str
    tags: dict[str, str]
    phrase: str
    objects: list[PartObject]
    answer: str | None
    error: str | None


def parsed_parts(prediction: Prediction) -> list[ResponsePart]:
    """Return, for each form of answer, its response's parts and what the grammar read in it."""
    responses = prediction.responses[len(prediction.responses) - len(prediction.parsed) :]
    return [
        _part(one, response, prediction.answer)
        for one, response in zip(prediction.parsed, responses, strict=True)
    ]


def _part(one: Parsed, response: str, answer: Answer | None) -> ResponsePart:
    frame, rest = split_frame(response)
    names = dict.fromkeys(TAG.findall(rest[:MAX_TEXT]))
    others = [name for name in names if name not in OWN_LINE][:MAX_TAGS]
    tags = {name: text for name in others if (text := tag_text(rest, name)) is not None}
    return {
        "form": str(one.form),
        "frame": frame if one.frame is None else one.frame,
        "think": reasoning(rest),
        "tags": tags,
        "phrase": one.phrase,
        "objects": [_object(place) for place in one.objects],
        "answer": _answer_text(one, answer),
        "error": one.error or None,
    }


def _object(one: ParsedObject) -> PartObject:
    plain: PartObject = {
        "box": None if one.box is None else list(one.box),
        "positive": [list(point) for point in one.positive],
        "negative": [list(point) for point in one.negative],
    }
    if one.phrase:
        plain["phrase"] = one.phrase
    return plain


def _answer_text(one: Parsed, answer: Answer | None) -> str | None:
    """Return an answer's fields of one form in words; None for masks and no answer."""
    if answer is None or one.error:
        return None
    fields = [name for name in SAYS[one.form] if not name.endswith(("masks", "track"))]
    return describe_answer(Answer(**{name: getattr(answer, name) for name in fields})) or None


def lines(part: ResponsePart) -> list[str]:
    """Describe one parsed response in words."""
    text = [part["form"]]
    if part["frame"] is not None:
        text.append(f"frame: {part['frame']}")
    if part["think"]:
        text.append(f"think: {part['think']}")
    text += [f"{name}: {value}" for name, value in part["tags"].items()]
    if part["phrase"]:
        text.append(f"phrase: {part['phrase']}")
    text += [
        f"object {number}: {_place(one)}" for number, one in enumerate(part["objects"], start=1)
    ]
    if part["answer"]:
        text.append(f"answer: {part['answer']}")
    if part["error"] is not None:
        text.append(f"cannot be read: {part['error']}")
    return text


def _place(one: PartObject) -> str:
    parts = [] if one["box"] is None else [f"box {_numbers(one['box'])}"]
    for points, words in ((one["positive"], "on it"), (one["negative"], "not on it")):
        parts += [f"{words} {_numbers(point)}" for point in points]
    parts += [repr(one["phrase"])] if "phrase" in one else []
    return ", ".join(parts)


def _numbers(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:.10g}" for value in values) + "]"
