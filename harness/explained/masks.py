"""Predicted and true masks of a sample in numbers, frame by frame, for `harness explain`.

Areas and boxes are in pixels of the original image. Pixels that touch at a corner are connected.
"""

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from scipy import ndimage

from harness.frames import uniform
from harness.masks import BoolArray, Rle
from harness.models.tracks import extent
from harness.types import Answer

MAX_FRAMES = 8  # frames of a video that are described, evenly spread
EIGHT_NEIGHBOURS = np.ones((3, 3), dtype=np.int64)


class MaskFacts(TypedDict):
    """A mask in numbers."""

    area: int
    """Pixels."""
    share: float
    """Area as a share of the image, 0 to 1."""
    box: list[int] | None
    """[left, top, right, bottom] in pixels, right and bottom exclusive; None: the mask is empty."""
    pieces: int
    """Number of connected parts."""


class FrameMasks(TypedDict):
    """Both masks of a frame; None where one is missing."""

    frame: int
    prediction: MaskFacts | None
    ground_truth: MaskFacts | None
    iou: float | None


class MaskTable(TypedDict):
    """Both masks of some frames of an image or video."""

    size: list[int]
    """[width, height] in pixels."""
    of_frames: int
    """Number of all frames."""
    frames: list[FrameMasks]


def compare_masks(answer: Answer | None, ground_truth: Answer | None) -> MaskTable | None:
    """Describe both masks and their IoU in at most MAX_FRAMES frames; None without masks.

    The IoU counts all pixels, so a protocol that ignores some, or weighs frames, gives another
    score. It is None if one of the masks is missing, or both are empty.
    """
    predicted = answer.masks if answer is not None else None
    target = ground_truth.masks if ground_truth is not None else None
    masks = predicted or target
    if not masks:
        return None
    total = max(len(predicted or ()), len(target or ()))
    return {
        "size": list(masks[0].size),
        "of_frames": total,
        "frames": [
            _frame(frame, _mask_at(predicted, frame), _mask_at(target, frame))
            for frame in uniform(range(total), MAX_FRAMES)
        ],
    }


def lines(table: MaskTable) -> list[str]:
    """Return the result of `compare_masks` in words: a line on all frames, then one per frame."""
    width, height = table["size"]
    return [
        f"of {width} × {height} pixels; IoU is of all pixels, without the protocol's own rules",
        *(
            f"frame {row['frame']}: {_mask_in_words('prediction', row['prediction'])}; "
            f"{_mask_in_words('ground truth', row['ground_truth'])}; {_iou_in_words(row)}"
            for row in table["frames"]
        ),
    ]


def _mask_at(masks: Sequence[Rle] | None, frame: int) -> Rle | None:
    return masks[frame] if masks is not None and frame < len(masks) else None


def _frame(frame: int, predicted: Rle | None, target: Rle | None) -> FrameMasks:
    """Describe both masks of a frame, and their IoU."""
    iou = None
    if predicted is not None and target is not None and predicted.size == target.size:
        union = predicted.union(target).area
        iou = predicted.intersection(target).area / union if union else None
    return {
        "frame": frame,
        "prediction": _describe_mask(predicted),
        "ground_truth": _describe_mask(target),
        "iou": iou,
    }


def _describe_mask(mask: Rle | None) -> MaskFacts | None:
    """Describe a mask; None for a missing one."""
    if mask is None:
        return None
    pixels: BoolArray = mask.to_array()
    box = extent(pixels)
    return {
        "area": mask.area,
        "share": mask.area / pixels.size,
        "box": None if box is None else [int(edge) for edge in box],
        "pieces": int(ndimage.label(pixels, structure=EIGHT_NEIGHBOURS)[1]),
    }


def _mask_in_words(name: str, info: MaskFacts | None) -> str:
    if info is None:
        return f"no {name}"
    if info["box"] is None:
        return f"{name} empty"
    pieces = "1 piece" if info["pieces"] == 1 else f"{info['pieces']} pieces"
    return (
        f"{name} {info['area']} pixels ({100 * info['share']:.1f} %), box {info['box']}, {pieces}"
    )


def _iou_in_words(row: FrameMasks) -> str:
    if row["iou"] is not None:
        return f"IoU {row['iou']:.3f}"
    both = row["prediction"] is not None and row["ground_truth"] is not None
    return "no IoU: both empty" if both else "no IoU"
