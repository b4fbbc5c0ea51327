"""Answers as objects to write: those that a perfect response would name, in pixels of the image.

Where a benchmark distinguishes objects, they are its own: one that is seen in two places is one,
two that touch are two. Elsewhere the connected parts of a mask stand for them.

Written responses express the whole ground truth. Training and rewards use it `without_specks`: a
stray pixel of an annotation is not an object to find.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import cv2
import numpy as np

from harness.errors import ParseError
from harness.masks import Rle
from harness.models.grammar import MAX_OBJECTS, Item
from harness.models.tracks import extent
from harness.types import Answer, AnswerForm, Box, Point

SPECK_PIXELS = 16
"""A part of as many pixels is an object, whatever its share."""
SPECK_SHARE = 0.01
"""All specks of a mask together stay below this share of it: an IoU loses less than that."""
COLUMNS = 12  # of the grid of boxes that stands for a number of objects


def key_frame_of(answer: Answer, rule: int) -> int:
    """The frame to write an answer for: `rule` unless the object is not in it.

    Then the frame where its mask is largest, or where its box is (the first, if several).
    """
    if answer.masks is not None:
        sizes = [mask.area for mask in answer.masks]
    elif answer.box_track is not None:
        sizes = [0 if box is None else 1 for box in answer.box_track]
    else:
        return rule
    return rule if not any(sizes) or sizes[rule] else int(np.argmax(sizes))


def objects_of(form: AnswerForm, answer: Answer, start: int, size: tuple[int, int]) -> list[Item]:
    """Return the objects of `answer`: one an instance, part, box, point or counted thing.

    Raises:
        ParseError: there are more than a grammar holds, or the answer says nothing of the form.
    """
    count = answer.count if form is AnswerForm.COUNT else None
    if count is not None and not (answer.boxes and len(answer.boxes) == count):
        items = counted_items(min(count, MAX_OBJECTS + 1), size)
    elif form in (AnswerForm.MASK, AnswerForm.MASK_TRACK) and answer.masks is not None:
        return objects_in(answer, start)
    elif answer.box_track is not None:
        box = answer.box_track[start]
        items = [] if box is None else [_box_item(box)]
    elif answer.boxes is not None:
        items = [_box_item(box) for box in answer.boxes]
    elif answer.points is not None:
        items = [Item(Box(x, y, x + 1, y + 1), Point(x, y)) for x, y in answer.points]
    else:
        raise ParseError("answer to write", expected=f"one for {form}", found="none")
    if len(items) > MAX_OBJECTS:
        raise ParseError("answer to write", expected=f"at most {MAX_OBJECTS} objects", found="more")
    return items


def objects_in(answer: Answer, frame: int) -> list[Item]:
    """Return the objects of an answer's masks in a frame, largest first, at most `MAX_OBJECTS`.

    One object an instance that is seen there: the box around all of it, the point of its largest
    part. Where instances are not known, one a connected part.
    """
    if answer.instances is not None:
        there = [track[frame] for track in answer.instances if track[frame].area]
        there.sort(key=lambda mask: mask.area, reverse=True)
        return [_whole_item(mask) for mask in there[:MAX_OBJECTS]]
    return [] if answer.masks is None else parts(answer.masks[frame])


def _whole_item(mask: Rle) -> Item:
    box = extent(mask.to_array())
    assert box is not None, "`objects_in` leaves out what is empty"
    return Item(box, parts(mask, limit=1)[0].point)


def parts(mask: Rle, *, limit: int = MAX_OBJECTS) -> list[Item]:
    """Return the 8-connected parts of a mask, largest first, at most `limit`.

    Boxes end after the last pixel; the point is the pixel farthest from the part's edge, the
    centre of its largest inscribed circle.
    """
    array = mask.to_array().astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(array, connectivity=8)
    numbers = np.asarray(stats)
    order = 1 + np.argsort(-numbers[1:count, cv2.CC_STAT_AREA], kind="stable")
    items = []
    for label in order[:limit]:
        left, top, width, height = (int(number) for number in numbers[label, :4])
        inside = np.asarray(labels)[top : top + height, left : left + width] == label
        # Outside the image is outside the part: pad, so that its border is an edge.
        depth = cv2.distanceTransform(np.pad(inside, 1).astype(np.uint8), cv2.DIST_L2, 5)
        row, column = np.unravel_index(int(np.argmax(depth)), depth.shape)
        point = Point(float(left + int(column) - 1), float(top + int(row) - 1))
        items.append(Item(Box(*map(float, (left, top, left + width, top + height))), point))
    return items


def without_specks(mask: Rle) -> Rle:
    """The mask without its smallest 8-connected parts, which are not objects of their own.

    Smallest first, as long as a part has fewer than 16 pixels, and all that are left out together
    less than 1 % of the mask: what edges of polygons and of brushes leave behind. So a mask of
    nothing but dots stays whole, and no mask becomes empty.
    """
    array = mask.to_array()
    count, labels, stats, _ = cv2.connectedComponentsWithStats(
        array.astype(np.uint8), connectivity=8
    )
    areas = np.asarray(stats)[1:count, cv2.CC_STAT_AREA]
    order = np.argsort(areas, kind="stable")
    few = (areas[order] < SPECK_PIXELS) & (np.cumsum(areas[order]) < SPECK_SHARE * mask.area)
    if not few.any():
        return mask
    return Rle.from_array(array & ~np.isin(np.asarray(labels), 1 + order[few]))


def training_answer(answer: Answer, frames: Iterable[int]) -> Answer:
    """An answer as it is taught: its masks of these frames, and its largest, without specks.

    Instances lose their own specks, so that a small one stays whole beside a large one; masks are
    still their union.
    """
    if not answer.masks:
        return answer
    looked = {*frames, int(np.argmax([mask.area for mask in answer.masks]))}
    if answer.instances is None:
        return replace(answer, masks=_without_specks(answer.masks, looked))
    instances = tuple(_without_specks(track, looked) for track in answer.instances)
    masks = tuple(
        _union_of_changes(
            mask,
            [
                (was[index], now[index])
                for was, now in zip(answer.instances, instances, strict=True)
            ],
        )
        for index, mask in enumerate(answer.masks)
    )
    return replace(answer, masks=masks, instances=instances)


def _without_specks(masks: Sequence[Rle], looked: Collection[int]) -> tuple[Rle, ...]:
    return tuple(
        without_specks(mask) if index in looked else mask for index, mask in enumerate(masks)
    )


def _union_of_changes(mask: Rle, changes: Sequence[tuple[Rle, Rle]]) -> Rle:
    """The union of what instances became, from (before, after); `mask` if none has changed."""
    if all(after is before for before, after in changes):
        return mask
    first, *others = (after for _, after in changes)
    return first.union(*others)


def counted_items(count: int, size: tuple[int, int]) -> list[Item]:
    """So many boxes, side by side: they stand for a number, and for no place."""
    width, height = size
    rows = MAX_OBJECTS // COLUMNS
    items = []
    for index in range(count):
        left, top = (index % COLUMNS) * width / COLUMNS, (index // COLUMNS % rows) * height / rows
        items.append(_box_item(Box(left, top, left + width / COLUMNS, top + height / rows)))
    return items


def _box_item(box: Box) -> Item:
    return Item(box, Item(box).place)
