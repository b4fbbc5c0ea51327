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
        _part(parsed, response, prediction.answer)
        for parsed, response in zip(prediction.parsed, responses, strict=True)
    ]


def _part(parsed: Parsed, response: str, answer: Answer | None) -> ResponsePart:
    frame, rest = split_frame(response)
    names = dict.fromkeys(TAG.findall(rest[:MAX_TEXT]))
    others = [name for name in names if name not in OWN_LINE][:MAX_TAGS]
    tags = {name: text for name in others if (text := tag_text(rest, name)) is not None}
    return {
        "form": str(parsed.form),
        "frame": frame if parsed.frame is None else parsed.frame,
        "think": reasoning(rest),
        "tags": tags,
        "phrase": parsed.phrase,
        "objects": [_object(place) for place in parsed.objects],
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
    """Return an answer's fields of one form in words; None for masks and no answer."""
    if answer is None or parsed.error:
        return None
    fields = [name for name in SAYS[parsed.form] if not name.endswith(("masks", "track"))]
    return describe_answer(Answer(**{name: getattr(answer, name) for name in fields})) or None


def lines(part: ResponsePart, *, protocol: str = "") -> list[str]:
    """Describe one parsed response in words.

    Args:
        part: What the model's grammar read.
        protocol: Name of the protocol, if its own rule reads the responses.
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
        f"object {number}: {_place(item)}" for number, item in enumerate(part["objects"], start=1)
    ]
    if part["answer"]:
        text.append(f"answer: {part['answer']}")
    if part["error"] is not None:
        grammar = (
            f"read by {protocol}, not by the model's grammar" if protocol else "cannot be read"
        )
        text.append(f"{grammar}: {part['error']}")
    return text


def _place(item: PartObject) -> str:
    parts = [] if item["box"] is None else [f"box {_numbers(item['box'])}"]
    for points, words in ((item["positive"], "on it"), (item["negative"], "not on it")):
        parts += [f"{words} {_numbers(point)}" for point in points]
    parts += [repr(item["phrase"])] if "phrase" in item else []
    return ", ".join(parts)


def _numbers(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:.10g}" for value in values) + "]"
