"""Answers in images and in words."""

import base64
import io
from collections.abc import Sequence

import numpy as np
from PIL import Image

from harness import overlay
from harness.errors import counted
from harness.masks import BoolArray, Rle
from harness.media import Frame
from harness.overlay import Colour
from harness.types import Answer

WIDTH = 260  # pixels of an image's thumbnail
FRAME_WIDTH = 160  # pixels up to which lines are thin
QUALITY = 80


def data_uri(image: Frame) -> str:
    """An image as a JPEG inside a URI."""
    encoded = io.BytesIO()
    Image.fromarray(image).save(encoded, format="JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(encoded.getvalue()).decode("ascii")


def draw(
    image: Frame,
    answer: Answer,
    *,
    index: int,
    size: tuple[int, int],
    colour: Colour,
    filled: bool,
) -> Frame:
    """Draw what an answer says about frame `index` on a thumbnail of it.

    Args:
        image: The thumbnail.
        answer: Its coordinates are pixels of the original.
        index: Which frame of the media this is.
        size: (width, height) of the original.
        colour: Of everything drawn.
        filled: Tint masks; otherwise outline them.
    """
    across, down = image.shape[1] / size[0], image.shape[0] / size[1]
    line = 2 if filled or image.shape[1] > FRAME_WIDTH else 1
    if (mask := _mask(answer, index)) is not None:
        small = shrink(mask, image.shape[:2])
        image = (
            overlay.tint(image, small, colour=colour)
            if filled
            else overlay.outline(image, small, colour=colour, width=line)
        )
    track = answer.box_track or ()
    tracked = track[index] if index < len(track) else None
    boxes = (*(answer.boxes or () if index == 0 else ()), *([tracked] if tracked else ()))
    for box in boxes:
        scaled = (box.left * across, box.top * down, box.right * across, box.bottom * down)
        image = overlay.rectangle(image, scaled, colour=colour, width=line)
    for point in answer.points or () if index == 0 else ():
        place = (point.x * across, point.y * down)
        image = overlay.dot(image, place, colour=colour, radius=2 + line)
    return image


def _mask(answer: Answer, index: int) -> BoolArray | None:
    if answer.masks is not None:
        return answer.masks[index].to_array() if index < len(answer.masks) else None
    if answer.soft_masks is not None and index < len(answer.soft_masks):
        return answer.soft_masks[index].to_array() >= np.float32(0.5)
    return None


def shrink(mask: BoolArray, shape: tuple[int, ...]) -> BoolArray:
    """Shrink a mask to a thumbnail's height × width; small objects keep at least one pixel."""
    if mask.shape == shape:
        return mask
    levels = Image.fromarray(mask.astype(np.uint8) * 255)
    cover = np.asarray(levels.resize((shape[1], shape[0]), Image.Resampling.BOX))
    half = cover >= 128
    return half if half.any() else cover > 0


def describe_answer(answer: Answer) -> str:
    """An answer in words: `2 boxes`, `mask of 12.5 % of the image`, `choice B`."""
    parts = ["no target"] if answer.no_target else []
    if answer.masks is not None:
        parts.append(_say_masks(answer.masks))
    elif answer.soft_masks is not None:
        parts.append(f"soft masks of {len(answer.soft_masks)} frame(s)")
    if answer.boxes is not None:
        parts.append(counted(len(answer.boxes), "box", "boxes"))
    if answer.points is not None:
        parts.append(counted(len(answer.points), "point", "points"))
    if answer.box_track is not None:
        seen = sum(box is not None for box in answer.box_track)
        parts.append(f"a box in {seen} of {len(answer.box_track)} frames")
    if answer.boxes_3d is not None:
        parts.append(counted(len(answer.boxes_3d), "3D box", "3D boxes"))
    if answer.count is not None:
        parts.append(f"count {answer.count}")
    if answer.choice is not None:
        parts.append(f"choice {answer.choice}")
    if answer.number is not None:
        parts.append(f"number {answer.number:g}")
    if answer.interval is not None:
        parts.append(f"{answer.interval.start:.1f} s to {answer.interval.end:.1f} s")
    if answer.text is not None:
        parts.append(f"“{answer.text}”")
    return ", ".join(parts)


def answer_words(answer: Answer) -> str:
    """The choice, count, number or text of an answer as a log has it; empty for places."""
    words = (answer.choice, answer.count, answer.number, answer.text)
    return next((str(word) for word in words if word is not None), "")


def _say_masks(masks: Sequence[Rle]) -> str:
    if len(masks) == 1:
        share = 100 * masks[0].area / (masks[0].height * masks[0].width)
        return f"mask of {share:.1f} % of the image" if share else "empty mask"
    seen = sum(mask.area > 0 for mask in masks)
    return f"masks in {seen} of {len(masks)} frames"
