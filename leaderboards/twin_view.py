"""A digital twin as pictures: instances outlined and labelled, and depth beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameView:
    """One frame with what a twin says of it."""

    index: int
    image: Frame
    masks: Mapping[int, BoolArray]
    """Masks (height × width) by the number of the instance."""
    boxes: Mapping[int, tuple[float, float, float, float]]
    """Boxes in pixels of instances without a mask, by number."""
    names: Mapping[int, str]
    depth: NDArray[np.float32] | None


def draw_frame(view: FrameView) -> Frame:
    """The frame with outlines and labels; beside it its depth, if there is one."""
    scale = _scale(view.image.shape[1])
    image = _resized(view.image, scale)
    for number, mask in view.masks.items():
        grown = (
            cv2.resize(
                mask.astype(np.uint8),
                (image.shape[1], image.shape[0]),
                interpolation=cv2.INTER_NEAREST,
            )
            != 0
        )
        image = tint(image, grown, colour=_colour(number), alpha=0.3)
        image = outline(image, grown, colour=_colour(number))
    for number, box in view.boxes.items():
        edges = tuple(edge * scale for edge in box)
        image = rectangle(image, (edges[0], edges[1], edges[2], edges[3]), colour=_colour(number))
    image = _labelled(image, view, scale)
    if view.depth is None:
        return image
    return side_by_side([image, _resized(draw_depth(view.depth), scale)])


def draw_depth(depth: NDArray[np.float32]) -> Frame:
    """A depth map in viridis, from its least value (dark) to its greatest (bright)."""
    low, high = float(depth.min()), float(depth.max())
    levels = (depth - low) / max(high - low, 1e-9) * 255
    drawn = cv2.applyColorMap(np.rint(levels).astype(np.uint8), cv2.COLORMAP_VIRIDIS)
    return np.ascontiguousarray(drawn[..., ::-1], dtype=np.uint8)


def stacked(images: Sequence[Frame], *, gap: int = 8) -> Frame:
    """Images below each other."""
    turned = [np.ascontiguousarray(image.transpose(1, 0, 2)) for image in images]
    return np.ascontiguousarray(side_by_side(turned, gap=gap).transpose(1, 0, 2))


def _labelled(image: Frame, view: FrameView, scale: float) -> Frame:
    drawn = Image.fromarray(image)
    pen = ImageDraw.Draw(drawn)
    font = ImageFont.load_default(LABEL)
    taken: list[tuple[float, float, float, float]] = []
    for number, name in view.names.items():
        place = _top(view, number)
        if place is None:
            continue
        text = f"{number} {name}"[:32]
        width = pen.textlength(text, font=font) + 6
        left = min(max(place[0] * scale - width / 2, 0), max(image.shape[1] - width, 0))
        top = max(place[1] * scale - LABEL - 6, 0)
        while any(_touch((left, top, left + width, top + LABEL + 5), other) for other in taken):
            top += LABEL + 5
            if top > image.shape[0] - LABEL - 5:
                break
        box = (left, top, left + width, top + LABEL + 5)
        taken.append(box)
        pen.rectangle(box, fill=(20, 20, 20), outline=_colour(number))
        pen.text((left + 3, top + 1), text, fill=(255, 255, 255), font=font)
    return np.asarray(drawn, dtype=np.uint8)


def _top(view: FrameView, number: int) -> tuple[float, float] | None:
    """The place (x, y) of an instance's label, in pixels of the frame: above it."""
    if number in view.boxes:
        left, top, right, _ = view.boxes[number]
        return (left + right) / 2, top
    mask = view.masks.get(number)
    if mask is None or not mask.any():
        return None
    rows, columns = np.nonzero(mask)
    return float(columns.mean()), float(rows.min())


def _touch(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _colour(number: int) -> Colour:
    return COLOURS[(number - 1) % len(COLOURS)]


def _scale(width: int) -> float:
    return min(max(1.0, MIN_WIDTH / width), max(MAX_WIDTH / width, 1e-6))


def _resized(image: Frame, scale: float) -> Frame:
    size = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, size, interpolation=way), dtype=np.uint8)


def frame_view(
    index: int,
    image: Frame,
    data: Mapping[str, Any],
    masks: Mapping[str, BoolArray],
    depth: NDArray[np.float32] | None,
) -> FrameView:
    """One frame of a twin's JSON.

    Args:
        index: Number of the frame.
        image: Its pixels.
        data: The twin's JSON.
        masks: The masks of this frame by path.
        depth: The depth of this frame.
    """
    shown: dict[int, BoolArray] = {}
    boxes: dict[int, tuple[float, float, float, float]] = {}
    names: dict[int, str] = {}
    for instance in data["instances"]:
        number = int(instance["id"])
        here = [frame for frame in instance["frames"] if frame["frame"] == index and frame["box"]]
        if not here:
            continue
        names[number] = str(instance["name"])
        if instance["mask"] is not None:
            shown[number] = masks[instance["mask"]]
        else:
            left, top, right, bottom = here[0]["box"]
            boxes[number] = (left, top, right, bottom)
    return FrameView(index=index, image=image, masks=shown, boxes=boxes, names=names, depth=depth)
