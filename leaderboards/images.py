"""Show answers: drawn on thumbnails of images, and described as text, for pages and logs."""

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
FRAME_WIDTH = 160  # largest width in pixels with thin lines, that of a video frame's thumbnail
QUALITY = 80  # of JPEG


def data_uri(image: Frame) -> str:
    """Return an image, (height, width, 3) of uint8, as a `data:` URI with a JPEG."""
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
        image: The thumbnail, (height, width, 3) of uint8.
        answer: The answer, in pixels of the original image.
        index: Index of the frame in its medium; 0 for an image.
        size: (width, height) of the original image.
        colour: Colour of masks, boxes and points.
        filled: Tint masks; otherwise outline them.
    """
    scale_x, scale_y = image.shape[1] / size[0], image.shape[0] / size[1]
    line = 2 if filled or image.shape[1] > FRAME_WIDTH else 1
    if (mask := mask_of(answer, index)) is not None:
        small = shrink(mask, image.shape[:2])
        image = (
            overlay.tint(image, small, colour=colour)
            if filled
            else overlay.outline(image, small, colour=colour, width=line)
        )
    boxes = list(answer.boxes or ()) if index == 0 else []  # only of a medium's first frame
    track = answer.box_track or ()
    if index < len(track) and (tracked_box := track[index]):
        boxes.append(tracked_box)
    for box in boxes:
        scaled = (box.left * scale_x, box.top * scale_y, box.right * scale_x, box.bottom * scale_y)
        image = overlay.rectangle(image, scaled, colour=colour, width=line)
    for point in answer.points or () if index == 0 else ():
        scaled_point = (point.x * scale_x, point.y * scale_y)
        image = overlay.dot(image, scaled_point, colour=colour, radius=2 + line)
    return image


def mask_of(answer: Answer, index: int) -> BoolArray | None:
    """Return the mask of frame `index`, or its soft mask from 0.5 up; None if it has neither."""
    if answer.masks is not None:
        return answer.masks[index].to_array() if index < len(answer.masks) else None
    if answer.soft_masks is not None and index < len(answer.soft_masks):
        return answer.soft_masks[index].to_array() >= np.float32(0.5)
    return None


def shrink(mask: BoolArray, shape: tuple[int, ...]) -> BoolArray:
    """Shrink a mask to a thumbnail's (height, width); a mask that is not empty stays so."""
    if mask.shape == shape:
        return mask
    levels = Image.fromarray(mask.astype(np.uint8) * 255)
    coverage = np.asarray(levels.resize((shape[1], shape[0]), Image.Resampling.BOX))
    is_majority = coverage >= 128
    return is_majority if is_majority.any() else coverage > 0


def describe_answer(answer: Answer) -> str:
    """Describe an answer as text: `2 boxes`, `mask of 12.5 % of the image`, `choice B`."""
    phrases = ["no target"] if answer.no_target else []
    if answer.masks is not None:
        phrases.append(_describe_masks(answer.masks))
    elif answer.soft_masks is not None:
        phrases.append(f"soft masks of {len(answer.soft_masks)} frame(s)")
    if answer.boxes is not None:
        phrases.append(counted(len(answer.boxes), "box", "boxes"))
    if answer.points is not None:
        phrases.append(counted(len(answer.points), "point", "points"))
    if answer.box_track is not None:
        n_visible = sum(box is not None for box in answer.box_track)
        phrases.append(f"a box in {n_visible} of {len(answer.box_track)} frames")
    if answer.boxes_3d is not None:
        phrases.append(counted(len(answer.boxes_3d), "3D box", "3D boxes"))
    if answer.count is not None:
        phrases.append(f"count {answer.count}")
    if answer.choice is not None:
        phrases.append(f"choice {answer.choice}")
    if answer.number is not None:
        phrases.append(f"number {answer.number:g}")
    if answer.interval is not None:
        phrases.append(f"{answer.interval.start:.1f} s to {answer.interval.end:.1f} s")
    if answer.text is not None:
        phrases.append(f"“{answer.text}”")
    return ", ".join(phrases)


def answer_words(answer: Answer) -> str:
    """Return the choice, count, number or text of an answer; empty for boxes, points and masks."""
    for value in (answer.choice, answer.count, answer.number, answer.text):
        if value is not None:
            return str(value)
    return ""


def _describe_masks(masks: Sequence[Rle]) -> str:
    if len(masks) == 1:
        percentage = 100 * masks[0].area / (masks[0].height * masks[0].width)
        return f"mask of {percentage:.1f} % of the image" if percentage else "empty mask"
    n_visible = sum(mask.area > 0 for mask in masks)
    return f"masks in {n_visible} of {len(masks)} frames"
