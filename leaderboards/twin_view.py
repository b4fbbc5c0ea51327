"""Draw a digital twin: instances outlined and labelled on a frame, and its depth beside it.

`harness twin` calls it. Images are (height, width, 3) of uint8; the twin's boxes and centroids are
in pixels of the original frame.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from harness.masks import BoolArray
from harness.media import Frame
from harness.overlay import Colour, outline, rectangle, side_by_side, tint

# Okabe and Ito's colours, which stay apart for the colour-blind.
COLOURS: tuple[Colour, ...] = (
    (230, 159, 0),
    (86, 180, 233),
    (0, 158, 115),
    (240, 228, 66),
    (0, 114, 178),
    (213, 94, 0),
    (204, 121, 167),
)
MIN_WIDTH = 480  # pixels; a smaller image is enlarged, so that labels can be read
MAX_WIDTH = 800  # pixels
MAX_FRAMES = 4  # of a video
LABEL_SIZE = 13  # height of a label's font in pixels


def draw_frame(
    index: int,
    image: Frame,
    data: Mapping[str, Any],
    masks: Mapping[str, BoolArray],
    depth: NDArray[np.float32] | None,
) -> Frame:
    """Draw the outlines and labels of a twin's instances on a frame, and its depth beside it.

    Args:
        index: Index of the frame.
        image: The frame.
        data: The twin's JSON.
        masks: (height, width) masks of this frame, by their paths in the JSON.
        depth: (height, width) depth of the frame; None: without depth.
    """
    scale = _scale(image.shape[1])
    canvas = _resized(image, scale)
    visible = []
    for instance in data["instances"]:
        boxes = [frame["box"] for frame in instance["frames"] if frame["frame"] == index]
        boxes = [box for box in boxes if box]
        if boxes:
            visible.append((int(instance["id"]), instance, boxes[0]))
    tops: dict[int, tuple[str, float, float]] = {}
    for number, instance, _ in visible:
        if instance["mask"] is None:
            continue
        mask = masks[instance["mask"]]
        size = (canvas.shape[1], canvas.shape[0])
        scaled = cv2.resize(mask.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) != 0
        canvas = tint(canvas, scaled, colour=_colour(number), alpha=0.3)
        canvas = outline(canvas, scaled, colour=_colour(number))
        if mask.any():
            rows, columns = np.nonzero(mask)
            tops[number] = str(instance["name"]), float(columns.mean()), float(rows.min())
    for number, instance, (left, top, right, bottom) in visible:
        if instance["mask"] is None:
            edges = (left * scale, top * scale, right * scale, bottom * scale)
            canvas = rectangle(canvas, edges, colour=_colour(number))
            tops[number] = str(instance["name"]), (left + right) / 2, top
    ordered = {number: tops[number] for number, *_ in visible if number in tops}
    canvas = _labelled(canvas, ordered, scale)
    if depth is None:
        return canvas
    return side_by_side([canvas, _resized(draw_depth(depth), scale)])


def draw_depth(depth: NDArray[np.float32]) -> Frame:
    """Return a (height, width) depth map in viridis, smallest value dark, largest bright."""
    low, high = float(depth.min()), float(depth.max())
    levels = (depth - low) / max(high - low, 1e-9) * 255
    coloured = cv2.applyColorMap(np.rint(levels).astype(np.uint8), cv2.COLORMAP_VIRIDIS)
    return np.ascontiguousarray(coloured[..., ::-1], dtype=np.uint8)


def stacked(images: Sequence[Frame]) -> Frame:
    """Return images one below the other."""
    transposed = [np.ascontiguousarray(image.transpose(1, 0, 2)) for image in images]
    return np.ascontiguousarray(side_by_side(transposed).transpose(1, 0, 2))


def _labelled(image: Frame, tops: Mapping[int, tuple[str, float, float]], scale: float) -> Frame:
    """Write the label of each instance above its top, moved down while it overlaps other labels.

    Args:
        image: The scaled frame.
        tops: (name, x, y) of each instance by its number, in pixels of the original frame.
        scale: Factor from the original frame to `image`.
    """
    canvas = Image.fromarray(image)
    pen = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(LABEL_SIZE)
    boxes: list[tuple[float, float, float, float]] = []
    for number, (name, x, y) in tops.items():
        text = f"{number} {name}"[:32]
        width = pen.textlength(text, font=font) + 6
        left = min(max(x * scale - width / 2, 0), max(image.shape[1] - width, 0))
        top = max(y * scale - LABEL_SIZE - 6, 0)
        while any(
            _overlap((left, top, left + width, top + LABEL_SIZE + 5), label) for label in boxes
        ):
            top += LABEL_SIZE + 5
            if top > image.shape[0] - LABEL_SIZE - 5:
                break
        box = (left, top, left + width, top + LABEL_SIZE + 5)
        boxes.append(box)
        pen.rectangle(box, fill=(20, 20, 20), outline=_colour(number))
        pen.text((left + 3, top + 1), text, fill=(255, 255, 255), font=font)
    return np.asarray(canvas, dtype=np.uint8)


def _overlap(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    """Return True if two boxes (left, top, right, bottom) overlap."""
    return (
        first[0] < second[2]
        and second[0] < first[2]
        and first[1] < second[3]
        and second[1] < first[3]
    )


def _colour(number: int) -> Colour:
    return COLOURS[(number - 1) % len(COLOURS)]


def _scale(width: int) -> float:
    return min(max(1.0, MIN_WIDTH / width), max(MAX_WIDTH / width, 1e-6))


def _resized(image: Frame, scale: float) -> Frame:
    size = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
    interpolation = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, size, interpolation=interpolation), dtype=np.uint8)
