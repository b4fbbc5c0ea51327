"""Answers of what a response says, one a form of the question, and one of them all.

What is left to do may be much, such as propagation: an answer is then `Pending`, a function that
does the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TypeAlias, TypeVar

from harness.errors import ParseError
from harness.masks import BoolArray, rles_of
from harness.models.grammar import Item
from harness.models.tracks import extent, joint_track
from harness.types import Answer, AnswerForm, Box, Query

MASKED = frozenset({AnswerForm.MASK, AnswerForm.MASK_TRACK, AnswerForm.BOX_TRACK})
"""Forms that are answered with masks, or with the boxes around them."""

T = TypeVar("T")
Pending: TypeAlias = Callable[[], T]
"""Something of which a part of the work is left."""


def mask_answer(
    form: AnswerForm,
    items: Sequence[Item],
    tracks: Pending[Sequence[BoolArray]],
    *,
    nothing: bool,
    is_image: bool,
    instances: Sequence[Pending[Sequence[BoolArray]]] = (),
) -> Pending[Answer]:
    """Masks of objects, or the boxes around them.

    Args:
        form: One of `MASKED`.
        items: The objects, in pixels of the image.
        tracks: Their joint mask in every frame, looked at one by one.
        nothing: Nothing is meant.
        is_image: It is an image: the objects' own boxes are part of the answer, where all have one.
        instances: The mask of each object in every frame, where the question asks for them.
    """
    if form is AnswerForm.BOX_TRACK:
        return lambda: Answer(box_track=tuple(map(extent, tracks())), no_target=nothing)
    boxes = boxes_of(items) if is_image else None
    return lambda: Answer(
        masks=rles_of(tracks()),
        instances=tuple(rles_of(track()) for track in instances) or None,
        boxes=boxes,
        no_target=nothing,
    )


def objects_answer(
    query: Query,
    form: AnswerForm,
    items: Sequence[Item],
    tracks: Sequence[Pending[Sequence[BoolArray]]],
    *,
    nothing: bool,
) -> Pending[Answer]:
    """Return the masks of objects; they are kept apart too where the query asks for that.

    `tracks` holds each object's mask in every frame, or one track of all objects. The rest is as
    in `mask_answer`.
    """
    media = query.media[0]
    return mask_answer(
        form,
        items,
        tracks[0]
        if len(tracks) == 1
        else lambda: joint_track("instances", [track() for track in tracks], media),
        nothing=nothing,
        is_image=len(media) == 1,
        instances=tracks if query.instances and not nothing else (),
    )


def box_answer(form: AnswerForm, items: Sequence[Item], *, phrase: str) -> Pending[Answer]:
    """Boxes, points or the number of objects, in pixels of the image.

    Boxes are part of the answer where every object has one, else points.

    Raises:
        ParseError: the objects say no answer of this form: a phrase alone has no place and no
            number, a point no box.
    """
    if phrase and not items:
        raise ParseError(
            "answer",
            expected="boxes, or no target",
            found=f"{phrase[:60]!r} and no box",
        )
    boxes = boxes_of(items)
    if boxes is None and form is AnswerForm.BOXES:
        raise ParseError("answer", expected="a box an object", found="an object without one")
    located = form is AnswerForm.POINTS or boxes is None
    points = tuple(item.place for item in items) if located else None
    count = len(items) if form is AnswerForm.COUNT else None
    return lambda: Answer(points=points, count=count, boxes=boxes, no_target=not items)


def boxes_of(items: Sequence[Item]) -> tuple[Box, ...] | None:
    """The box of every object; None if one has none."""
    boxes = tuple(item.box for item in items if item.box is not None)
    return boxes if len(boxes) == len(items) else None


def combine_answers(parts: Sequence[Pending[Answer]]) -> Answer:
    """One answer of what each form's response says; NO_TARGET only if every one says so."""
    answer = Answer()
    for pending in parts:
        part = pending()
        lacking = (field.name for field in fields(Answer) if getattr(answer, field.name) is None)
        no_target = part.no_target and (answer.no_target or answer == Answer())
        answer = replace(
            answer, **{name: getattr(part, name) for name in lacking}, no_target=no_target
        )
    return answer
