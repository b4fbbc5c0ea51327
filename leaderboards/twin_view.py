"""A digital twin as pictures: instances outlined and labelled, and depth beside them."""

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
MAX_WIDTH = 800
MAX_FRAMES = 4
LABEL = 13  # pixels


def draw_frame(
    index: int,
    image: Frame,
    data: Mapping[str, Any],
    masks: Mapping[str, BoolArray],
    depth: NDArray[np.float32] | None,
) -> Frame:
    """Draw the outlines and labels of a twin's instances on a frame; beside it its depth.

    `data` is the twin's JSON; `masks` (height × width) of this frame are by path.
    """
    scale = _scale(image.shape[1])
    drawn = _resized(image, scale)
    seen = [
        (int(instance["id"]), instance, frame["box"])
        for instance in data["instances"]
        for frame in [
            entry for entry in instance["frames"] if entry["frame"] == index and entry["box"]
        ][:1]
    ]
    tops: dict[int, tuple[str, float, float]] = {}
    for number, instance, _ in seen:
        if instance["mask"] is None:
            continue
        mask = masks[instance["mask"]]
        size = (drawn.shape[1], drawn.shape[0])
        grown = cv2.resize(mask.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST) != 0
        drawn = tint(drawn, grown, colour=_colour(number), alpha=0.3)
        drawn = outline(drawn, grown, colour=_colour(number))
        if mask.any():
            rows, columns = np.nonzero(mask)
            tops[number] = str(instance["name"]), float(columns.mean()), float(rows.min())
    for number, instance, (left, top, right, bottom) in seen:
        if instance["mask"] is None:
            edges = (left * scale, top * scale, right * scale, bottom * scale)
            drawn = rectangle(drawn, edges, colour=_colour(number))
            tops[number] = str(instance["name"]), (left + right) / 2, top
    ordered = {number: tops[number] for number, *_ in seen if number in tops}
    drawn = _labelled(drawn, ordered, scale)
    if depth is None:
        return drawn
    return side_by_side([drawn, _resized(draw_depth(depth), scale)])


def draw_depth(depth: NDArray[np.float32]) -> Frame:
    """A depth map in viridis, from its least value (dark) to its greatest (bright)."""
    low, high = float(depth.min()), float(depth.max())
    levels = (depth - low) / max(high - low, 1e-9) * 255
    drawn = cv2.applyColorMap(np.rint(levels).astype(np.uint8), cv2.COLORMAP_VIRIDIS)
    return np.ascontiguousarray(drawn[..., ::-1], dtype=np.uint8)


def stacked(images: Sequence[Frame]) -> Frame:
    """Images below each other."""
    turned = [np.ascontiguousarray(image.transpose(1, 0, 2)) for image in images]
    return np.ascontiguousarray(side_by_side(turned).transpose(1, 0, 2))


def _labelled(image: Frame, tops: Mapping[int, tuple[str, float, float]], scale: float) -> Frame:
    """Write number and name of each instance above its top (x, y), in pixels before scaling."""
    drawn = Image.fromarray(image)
    pen = ImageDraw.Draw(drawn)
    font = ImageFont.load_default(LABEL)
    taken: list[tuple[float, float, float, float]] = []
    for number, (name, x, y) in tops.items():
        text = f"{number} {name}"[:32]
        width = pen.textlength(text, font=font) + 6
        left = min(max(x * scale - width / 2, 0), max(image.shape[1] - width, 0))
        top = max(y * scale - LABEL - 6, 0)
        while any(_touch((left, top, left + width, top + LABEL + 5), label) for label in taken):
            top += LABEL + 5
            if top > image.shape[0] - LABEL - 5:
                break
        box = (left, top, left + width, top + LABEL + 5)
        taken.append(box)
        pen.rectangle(box, fill=(20, 20, 20), outline=_colour(number))
        pen.text((left + 3, top + 1), text, fill=(255, 255, 255), font=font)
    return np.asarray(drawn, dtype=np.uint8)


def _touch(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
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
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, size, interpolation=way), dtype=np.uint8)
