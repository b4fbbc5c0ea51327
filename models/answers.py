"""Make the `Answer` of each form that a question asks for, from the objects of a response.

Models call these functions with items in pixels of the image and with tracks of masks. Masks may
still have to be propagated, so an answer is `Pending`: a function that does the remaining work.
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
"""A function that does the remaining work and returns its result."""


def mask_answer(
    form: AnswerForm,
    items: Sequence[Item],
    tracks: Pending[Sequence[BoolArray]],
    *,
    nothing: bool,
    is_image: bool,
    instances: Sequence[Pending[Sequence[BoolArray]]] = (),
) -> Pending[Answer]:
    """Return the masks of objects, or for a box track the boxes around them, as an answer.

    Args:
        form: One of `MASKED`.
        items: The objects, in pixels of the image.
        tracks: Gives their joint mask in every frame (height × width each), read one by one.
        nothing: True if the response says that there is no target.
        is_image: True for an image: if all objects have a box, the boxes are part of the answer.
        instances: One function for each object, which gives its mask in every frame; empty: the
            question does not ask for instances.
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
    """Return the masks of objects as an answer, with instances if the query asks for them.

    `tracks` holds a function for each object that gives its mask in every frame, or a single one
    that gives the joint masks. The other arguments are those of `mask_answer`.
    """
    media = query.media[0]

    def joint() -> Sequence[BoolArray]:
        return joint_track("instances", [track() for track in tracks], media)

    return mask_answer(
        form,
        items,
        tracks[0] if len(tracks) == 1 else joint,
        nothing=nothing,
        is_image=len(media) == 1,
        instances=tracks if query.instances and not nothing else (),
    )


def box_answer(form: AnswerForm, items: Sequence[Item], *, phrase: str) -> Pending[Answer]:
    """Return boxes, points or the number of objects (in pixels of the image) as an answer.

    Boxes are part of the answer if every object has one; points, if an object lacks a box or the
    question asks for points. `phrase` is what the response says in place of objects, or "".

    Raises:
        ParseError: the response gives a phrase alone, or the question asks for boxes and an object
            has only a point.
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
    n_objects = len(items) if form is AnswerForm.COUNT else None
    return lambda: Answer(points=points, count=n_objects, boxes=boxes, no_target=not items)


def boxes_of(items: Sequence[Item]) -> tuple[Box, ...] | None:
    """Return the box of every object; None if an object lacks one."""
    boxes = tuple(item.box for item in items if item.box is not None)
    return boxes if len(boxes) == len(items) else None


def combine_answers(parts: Sequence[Pending[Answer]]) -> Answer:
    """Return one answer with the parts of all forms; no target only if every form says so."""
    answer = Answer()
    for pending in parts:
        part = pending()
        lacking = (field.name for field in fields(Answer) if getattr(answer, field.name) is None)
        is_first = answer == Answer()
        no_target = part.no_target and (answer.no_target or is_first)
        answer = replace(
            answer, **{name: getattr(part, name) for name in lacking}, no_target=no_target
        )
    return answer
