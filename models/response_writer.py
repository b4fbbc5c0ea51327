"""Turn a ground-truth answer into the objects that a perfect response would name.

The objects (`Item`, in pixels of the image) go to `Prompt.write`. If the benchmark annotates
instances, each instance is one object; otherwise each connected part of the mask is. A written
response expresses the whole ground truth; training and rewards use `training_answer`, which leaves
out specks, because a stray pixel of an annotation is not an object to find.
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
"""A part with at least this many pixels is an object, however small its share of the mask."""
SPECK_SHARE = 0.01
"""All specks of a mask are together less than this share of its area, and so is the loss in IoU."""
N_COLUMNS = 12  # of the grid of boxes that expresses a count; MAX_OBJECTS is a multiple of it


def key_frame_of(answer: Answer, rule: int) -> int:
    """Return the number of the frame to write an answer for.

    It is `rule`, the frame that a model's rule chooses. If the object is not visible there, it is
    the frame where the mask is largest, or the first frame with a box.
    """
    if answer.masks is not None:
        sizes = [mask.area for mask in answer.masks]
    elif answer.box_track is not None:
        sizes = [0 if box is None else 1 for box in answer.box_track]
    else:
        return rule
    return rule if not any(sizes) or sizes[rule] else int(np.argmax(sizes))


def objects_of(form: AnswerForm, answer: Answer, start: int, size: tuple[int, int]) -> list[Item]:
    """Return the objects of `answer`: one for each instance, part, box, point or counted thing.

    Args:
        form: The form of answer that is written.
        answer: The ground truth.
        start: Number of the frame whose masks or boxes are written.
        size: (width, height) of the image in pixels.

    Raises:
        ParseError: there are more than `MAX_OBJECTS` boxes, points or counted things, or the
            answer has nothing of this form.
    """
    n_objects = answer.count if form is AnswerForm.COUNT else None
    if n_objects is not None and not (answer.boxes and len(answer.boxes) == n_objects):
        items = counted_items(min(n_objects, MAX_OBJECTS + 1), size)
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

    Each visible instance is one object, with the box around all of it and the point of its largest
    part. An answer without instances gives one object for each connected part.
    """
    if answer.instances is not None:
        visible = [track[frame] for track in answer.instances if track[frame].area]
        visible.sort(key=lambda mask: mask.area, reverse=True)
        return [_instance_item(mask) for mask in visible[:MAX_OBJECTS]]
    return [] if answer.masks is None else parts(answer.masks[frame])


def _instance_item(mask: Rle) -> Item:
    """Return an instance with the box around its mask and the point of its largest part."""
    box = extent(mask.to_array())
    assert box is not None, "`objects_in` leaves out empty masks"
    return Item(box, parts(mask, limit=1)[0].point)


def parts(mask: Rle, *, limit: int = MAX_OBJECTS) -> list[Item]:
    """Return the 8-connected parts of a mask, largest first, at most `limit`.

    Boxes are in pixels, right and bottom exclusive. The point is the pixel farthest from the part's
    edge: the centre of its largest inscribed circle.
    """
    array = mask.to_array().astype(np.uint8)
    n_labels, labels, stats, _ = cv2.connectedComponentsWithStats(array, connectivity=8)
    numbers = np.asarray(stats)
    # largest area first; label 0 is the background
    order = 1 + np.argsort(-numbers[1:n_labels, cv2.CC_STAT_AREA], kind="stable")
    items = []
    for label in order[:limit]:
        left, top, width, height = (int(number) for number in numbers[label, :4])
        inside = np.asarray(labels)[top : top + height, left : left + width] == label
        # Pad with one pixel of background, so that the border of the image counts as an edge.
        depth = cv2.distanceTransform(np.pad(inside, 1).astype(np.uint8), cv2.DIST_L2, 5)
        row, column = np.unravel_index(int(np.argmax(depth)), depth.shape)
        point = Point(float(left + int(column) - 1), float(top + int(row) - 1))
        items.append(Item(Box(*map(float, (left, top, left + width, top + height))), point))
    return items


def without_specks(mask: Rle) -> Rle:
    """Return the mask without specks: tiny 8-connected parts that annotation tools leave behind.

    Parts are removed from the smallest on, while a part has fewer than `SPECK_PIXELS` pixels and
    all removed ones together are less than `SPECK_SHARE` of the mask. So a mask that consists of
    dots stays whole, and no mask becomes empty.
    """
    array = mask.to_array()
    n_labels, labels, stats, _ = cv2.connectedComponentsWithStats(
        array.astype(np.uint8), connectivity=8
    )
    areas = np.asarray(stats)[1:n_labels, cv2.CC_STAT_AREA]  # without the background, label 0
    order = np.argsort(areas, kind="stable")
    smallest = areas[order]
    is_speck = (smallest < SPECK_PIXELS) & (np.cumsum(smallest) < SPECK_SHARE * mask.area)
    if not is_speck.any():
        return mask
    return Rle.from_array(array & ~np.isin(np.asarray(labels), 1 + order[is_speck]))


def training_answer(answer: Answer, frames: Iterable[int]) -> Answer:
    """Return the answer for training: without specks in `frames` and in the largest mask's frame.

    Specks are removed from each instance by its own area, so that a small instance stays whole
    beside a large one; the masks remain the union of the instances.
    """
    if not answer.masks:
        return answer
    cleaned_frames = {*frames, int(np.argmax([mask.area for mask in answer.masks]))}
    if answer.instances is None:
        return replace(answer, masks=_clean_frames(answer.masks, cleaned_frames))
    instances = tuple(_clean_frames(track, cleaned_frames) for track in answer.instances)
    masks = []
    for frame, mask in enumerate(answer.masks):
        before = [track[frame] for track in answer.instances]
        after = [track[frame] for track in instances]
        # `without_specks` returns a mask that has no specks as the same object
        changed = any(new is not old for old, new in zip(before, after, strict=True))
        masks.append(after[0].union(*after[1:]) if changed else mask)
    return replace(answer, masks=tuple(masks), instances=instances)


def _clean_frames(masks: Sequence[Rle], frames: Collection[int]) -> tuple[Rle, ...]:
    """Return the masks, without specks in `frames`."""
    return tuple(
        without_specks(mask) if frame in frames else mask for frame, mask in enumerate(masks)
    )


def counted_items(n_objects: int, size: tuple[int, int]) -> list[Item]:
    """Return `n_objects` boxes in a grid over the image: they express a count, not places."""
    width, height = size
    n_rows = MAX_OBJECTS // N_COLUMNS
    items = []
    for index in range(n_objects):
        row, column = index // N_COLUMNS % n_rows, index % N_COLUMNS
        left, top = column * width / N_COLUMNS, row * height / n_rows
        items.append(_box_item(Box(left, top, left + width / N_COLUMNS, top + height / n_rows)))
    return items


def _box_item(box: Box) -> Item:
    """Return the object of a box, with the middle of the box as its point."""
    return Item(box, Item(box).place)
