"""A run's replies read again with its own model: what they say, or why they say nothing.

Nothing is segmented again: in the place of segmenter and propagator stands one that notes what it
is asked for, in pixels of the picture.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from harness.cli.retold import Retold, Turn
from harness.errors import HarnessError, ModelError, ParseError
from harness.leaderboards.pictures import say
from harness.masks import BoolArray, Track
from harness.media import Frame, Media
from harness.model import ObjectPrompt, Propagator, ReplyReader, Segmenter
from harness.models.answers import MASKED
from harness.models.canvas import normalized_to
from harness.models.compose import LOCATED, PromptedModel
from harness.models.grammar import Item, between, reasoning, split_frame
from harness.models.videoseg_r1.sampler import read_interval, read_percentage
from harness.plugins import blamed
from harness.replies import MAX_TEXT
from harness.types import Answer, AnswerForm, FailureKind, Point, Prediction, Query

TAG = re.compile(r"<([a-z_]{1,20})>")
TOLD = ("think", "answer", "frame")  # tags that stand under a name of their own
MOST_TAGS = 6
PLACES = ("boxes", "points")
FIELDS = (*PLACES, "boxes_3d", "count", "choice", "number", "interval", "text", "no_target")
"""Fields of an answer that follow from replies alone."""
SHAPES = ("masks", "box_track")
"""Fields that are there or not by the replies, and filled by perception."""


@dataclass(frozen=True, kw_only=True)
class Noted(Segmenter, Propagator):
    """Stands for segmenter and propagator: finds nothing, and keeps what it was asked for."""

    prompts: list[ObjectPrompt] = field(default_factory=list)
    name: str = "noted"

    def segment(self, picture: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """An empty mask (height × width of `picture`) a prompt."""
        self.prompts.extend(prompts)
        return [np.zeros(picture.shape[:2], dtype=np.bool_) for _ in prompts]

    def propagate(self, video: Media, start: int, masks: Sequence[BoolArray]) -> list[Track]:
        """The same masks in every frame."""
        return [Track.repeated(mask, len(video)) for mask in masks]


def read_again(told: Retold, query: Query, recorded: Prediction) -> dict[str, Any]:
    """What each reply says (`parse`), and whether that is what the record has (`reread`).

    Of another model than a composition only the second is known; of one that reads no replies,
    `reread` says so.
    """
    if not recorded.replies:
        return {"parse": [], "reread": "nothing to read: no reply is recorded"}
    reader = told.model
    if not isinstance(reader, ReplyReader):
        return {
            "parse": [],
            "reread": "not read here: "
            + ("the model cannot be built" if reader is None else "this model reads no replies"),
        }
    try:
        with blamed("the model's reader", ModelError):
            parts = _parts(reader, query, recorded.replies, told.turns)
            again = _watched(reader, Noted()).read(query, recorded.replies)
    except HarnessError as error:
        return {"parse": [], "reread": f"not read here: {error}"}
    different = differences(recorded, again, places=_same_canvas(told))
    outcome = "DIFFERS from the record: " + "; ".join(different) if different else _same(recorded)
    return {"parse": parts, "reread": outcome, "read_as_recorded": not different}


def differences(recorded: Prediction, again: Prediction, *, places: bool = True) -> list[str]:
    """What a record and a second reading disagree in; without `places` not in boxes and points."""
    if recorded.failure is not None and recorded.failure.kind is not FailureKind.PARSE:
        return []  # it is not the reading that failed
    if recorded.answer is None or again.answer is None:
        if (recorded.answer is None) == (again.answer is None):
            return []
        return [f"recorded {_outcome(recorded)}, now {_outcome(again)}"]
    old, new = recorded.answer, again.answer
    compared = FIELDS if places else [name for name in FIELDS if name not in PLACES]
    found = [
        f"{name}: recorded {getattr(old, name)}, now {getattr(new, name)}"
        for name in compared
        if getattr(old, name) != getattr(new, name)
    ]
    return found + [
        f"{name}: {'not ' if getattr(old, name) is None else ''}recorded, "
        f"{'not ' if getattr(new, name) is None else ''}said now"
        for name in SHAPES
        if (getattr(old, name) is None) != (getattr(new, name) is None)
    ]


def lines(part: Mapping[str, Any]) -> list[str]:
    """What one reply says, in words."""
    told = [f"reply {part['reply']}, asked for {part['form']}"]
    for name in ("frame", "think", *sorted(part.get("tags", {})), "phrase"):
        value = part.get(name, part.get("tags", {}).get(name))
        if value not in (None, ""):
            told.append(f"{name}: {value}")
    for number, one in enumerate(part.get("objects", ()), start=1):
        told.append(f"object {number}: {_place(one['said'])}")
        if one["picture"] is not None:
            told.append(f"  in the picture: {_place(one['picture'])}")
    if part.get("no_target"):
        told.append("nothing is meant")
    if part.get("answer"):
        told.append(f"answer: {part['answer']}")
    told += [f"repaired: {note}" for note in part.get("repairs", ())]
    if part["error"] is not None:
        told.append(f"cannot be read: {part['error']}")
    return told


def _same(recorded: Prediction) -> str:
    if recorded.failure is not None:
        if recorded.failure.kind is FailureKind.PARSE:
            return "as recorded: there is no answer"
        return f"not compared: what failed was not the reading ({recorded.failure.kind})"
    perception = any(getattr(recorded.answer, name) is not None for name in SHAPES)
    return "as recorded" + ("; masks are not made again" if perception else "")


def _outcome(prediction: Prediction) -> str:
    if prediction.failure is not None:
        return f"no answer ({prediction.failure.message})"
    return say(prediction.answer or Answer())


def _same_canvas(told: Retold) -> bool:
    """Whether pixels of replies mean what they meant in the run."""
    if told.exact or not isinstance(told.model, PromptedModel):
        return told.exact
    return normalized_to(told.model.meaning) is not None or told.model.prompt.resize is not None


def _watched(reader: Any, noted: Noted) -> Any:
    """The reader with `noted` as its perception; what stands around its segmenter is kept."""
    around = getattr(reader, "segmenter", None)
    kept = is_dataclass(around) and not isinstance(around, type) and hasattr(around, "segmenter")
    segmenter = replace(around, segmenter=noted) if kept else noted  # type: ignore[type-var]
    return reader.with_perception(segmenter, noted)


def _parts(
    reader: Any, query: Query, replies: Sequence[str], turns: Sequence[Turn]
) -> list[dict[str, Any]]:
    if not isinstance(reader, PromptedModel):
        return []
    searched = hasattr(reader, "voters")  # its votes come first
    before = max(0, len(replies) - len(query.forms)) if searched else 0
    parts = [
        {"reply": number, **_vote(_kind(query, turns, number), reply)}
        for number, reply in enumerate(replies[:before], start=1)
    ]
    for number, reply in enumerate(replies[before:], start=before + 1):
        place = number - before - 1
        if place >= len(query.forms):
            parts.append({"reply": number, "form": "nothing", "error": "one reply too many"})
            continue
        form = query.forms[place]
        read = _located if form in LOCATED else _worded
        parts.append(
            {
                "reply": number,
                "form": str(form),
                **_around(reply),
                **read(reader, query, form, reply),
            }
        )
    return parts


def _kind(query: Query, turns: Sequence[Turn], number: int) -> str:
    """What a vote was asked for: a `segment` of a video or a `frame` of it."""
    key = turns[number - 1].request.key if number <= len(turns) else ""
    return key.removeprefix(f"{query.id}:").partition(":")[0]


def _vote(kind: str, reply: str) -> dict[str, Any]:
    if kind == "frame":
        part = read_percentage(reply)
        return {
            "form": "the place of a frame",
            "answer": None if part is None else f"percent {part:g}",
            "error": "no percentage, which counts as the middle" if part is None else None,
        }
    stretch = read_interval(reply)
    return {
        "form": "a stretch of time",
        "answer": None if stretch is None else f"{stretch[0]:g} s to {stretch[1]:g} s",
        "error": "no interval, which does not count" if stretch is None else None,
    }


def _around(reply: str) -> dict[str, Any]:
    """What stands in a reply beside its answer: the frame, the reasoning, other tags."""
    frame, rest = split_frame(reply)
    names = dict.fromkeys(TAG.findall(rest[:MAX_TEXT]))
    others = [name for name in names if name not in TOLD][:MOST_TAGS]
    tags = {name: text for name in others if (text := between(rest, name)) is not None}
    return {"frame": frame, "think": reasoning(rest), "tags": tags}


def _located(reader: PromptedModel, query: Query, form: AnswerForm, reply: str) -> dict[str, Any]:
    said, noted = reader.prompt.parse(reply), Noted()
    alone = _watched(reader, noted).read(replace(query, forms=(form,)), (reply,))
    error = said.error or (alone.failure.message if alone.failure is not None else None)
    boxes = (alone.answer.boxes or ()) if alone.answer is not None else ()
    points = (alone.answer.points or ()) if alone.answer is not None else ()
    asked: Sequence[ObjectPrompt] = (
        noted.prompts
        if form in MASKED
        else [
            ObjectPrompt(box=box, positive=() if point is None else (point,))
            for box, point in zip_longest(boxes, points)
        ]
    )
    told = [_prompt(one) for one in asked] if len(asked) == len(said.items) else []
    return {
        "phrase": said.phrase,
        "objects": [
            {"said": _item(item), "picture": told[place] if told else None}
            for place, item in enumerate(said.items)
        ],
        "no_target": alone.answer is not None and alone.answer.no_target,
        "answer": None if form in MASKED or alone.answer is None else say(alone.answer),
        "repairs": list(said.notes),
        "error": error,
    }


def _worded(reader: PromptedModel, query: Query, form: AnswerForm, reply: str) -> dict[str, Any]:
    try:
        return {"answer": say(reader.words.read(query, form, reply)), "error": None}
    except ParseError as error:
        return {"answer": None, "error": str(error)}


def _item(item: Item) -> dict[str, Any]:
    """An object in the coordinates of the reply."""
    return {
        "box": None if item.box is None else list(item.box),
        "positive": [list(point) for point in (item.point, item.second) if point is not None],
        "negative": [] if item.negative is None else [list(item.negative)],
        "phrase": item.phrase,
    }


def _prompt(prompt: ObjectPrompt) -> dict[str, Any]:
    """What the segmenter was told of an object, in pixels of the picture."""
    return {
        "box": None if prompt.box is None else list(prompt.box),
        "positive": [list(point) for point in prompt.positive],
        "negative": [list(point) for point in prompt.negative],
        "phrase": prompt.phrase,
    }


def _place(one: Mapping[str, Any]) -> str:
    parts = [] if one["box"] is None else [f"box {_numbers(one['box'])}"]
    for name, words in (("positive", "on it"), ("negative", "not on it")):
        parts += [f"{words} {_numbers(point)}" for point in one[name]]
    parts += [repr(one["phrase"])] if one["phrase"] else []
    return ", ".join(parts)


def _numbers(values: Sequence[float] | Point) -> str:
    return "[" + ", ".join(f"{value:.10g}" for value in values) + "]"
