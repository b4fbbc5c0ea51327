"""Inputs of the golden files, made from a seed: masks of every awkward kind, shapes, boxes."""

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.masks import Rle

Mask = NDArray[np.bool_]

SMALL = (
    (1, 1),
    (1, 7),
    (9, 1),
    (2, 2),
    (3, 4),
    (5, 8),
    (17, 23),
    (24, 64),
    (33, 65),
    (64, 63),
    (48, 129),
    (60, 128),
    (75, 100),
    (100, 75),
    (130, 97),
    (96, 192),
    (110, 160),
)
LARGE = ((120, 214), (240, 427), (480, 854), (854, 480), (720, 1280))
FRAMES = (
    (1, 1),
    (3, 4),
    (75, 100),
    (100, 75),
    (76, 100),
    (99, 132),
    (120, 160),
    (150, 200),
    (225, 300),
    (240, 427),
    (300, 400),
    (300, 401),
    (375, 500),
    (480, 640),
    (480, 854),
    (600, 800),
    (720, 1280),
    (750, 1000),
    (1080, 1920),
    (1920, 1080),
    (1500, 2000),
    (7, 24),
    (35, 120),
    (1, 125),
    (1, 124),
)
KINDS = (
    "empty",
    "full",
    "dot",
    "row",
    "column",
    "diagonal",
    "rectangle",
    "corner",
    "edge",
    "frame",
    "ellipse",
    "polygon",
    "noise",
    "board",
    "two",
    "last row",
    "last column",
)


def mask_of(kind: str, size: tuple[int, int], rng: np.random.Generator) -> Mask:
    """A mask of one of `KINDS` at a random place."""
    height, width = size
    mask = np.zeros(size, dtype=np.uint8)
    top, left = int(rng.integers(height)), int(rng.integers(width))
    bottom, right = int(rng.integers(top, height)) + 1, int(rng.integers(left, width)) + 1
    match kind:
        case "full":
            mask[:] = 1
        case "dot":
            mask[top, left] = 1
        case "row":
            mask[top, left:right] = 1
        case "column":
            mask[top:bottom, left] = 1
        case "diagonal":
            cv2.line(mask, (left, top), (width - 1 - left, height - 1 - top), 1, 1)
        case "rectangle":
            mask[top:bottom, left:right] = 1
        case "corner":
            mask[top:, left:] = 1
        case "edge":
            mask[:bottom] = 1
        case "frame":
            mask[:] = 1
            mask[1:-1, 1:-1] = 0
        case "ellipse":
            axes = (max(width // int(rng.integers(3, 9)), 1), max(height // 5, 1))
            cv2.ellipse(mask, (left, top), axes, float(rng.integers(180)), 0, 360, 1, -1)
        case "polygon":
            corners = rng.integers([0, 0], [width, height], (int(rng.integers(3, 8)), 2))
            cv2.fillPoly(mask, [corners.astype(np.int32)], 1)
        case "noise":
            mask = (rng.random(size) < rng.choice([0.02, 0.2, 0.5, 0.97])).astype(np.uint8)
        case "board":
            mask = (np.indices(size).sum(axis=0) % 2).astype(np.uint8)
        case "two":
            first, second = mask_of("rectangle", size, rng), mask_of("ellipse", size, rng)
            return first | second
        case "last row":
            mask[-1, left:right] = 1
        case "last column":
            mask[top:bottom, -1] = 1
    return mask.astype(np.bool_)


def transformed(mask: Mask, *, shift: tuple[int, int] = (0, 0), grow: int = 0) -> Mask:
    """The mask moved by rows and columns, then dilated (or eroded) by a square of 2·|grow| + 1."""
    height, width = mask.shape
    matrix = np.array([[1, 0, shift[1]], [0, 1, shift[0]]], dtype=np.float64)
    moved = cv2.warpAffine(mask.astype(np.uint8), matrix, (width, height), flags=cv2.INTER_NEAREST)
    square = np.ones((2 * abs(grow) + 1,) * 2, dtype=np.uint8)
    if grow:
        moved = (cv2.dilate if grow > 0 else cv2.erode)(moved, square)
    return moved.astype(np.bool_)


def answer_to(mask: Mask, rng: np.random.Generator) -> Mask:
    """A prediction for a mask: the same, near it, its opposite, nothing, or something else."""
    kind = int(rng.integers(12))
    if kind == 0:
        return mask.copy()
    if kind < 8:
        reach = 3 if mask.shape[0] < 100 else 6
        shift = (int(rng.integers(-reach, reach + 1)), int(rng.integers(-reach, reach + 1)))
        return transformed(mask, shift=shift, grow=int(rng.integers(-2, 3)))
    if kind == 8:
        return ~mask
    if kind == 9:
        return np.zeros_like(mask)
    return mask_of(str(rng.choice(KINDS)), mask.shape, rng)  # type: ignore[arg-type]


def pairs(rng: np.random.Generator, rounds: int, large: int) -> Iterator[tuple[Mask, Mask]]:
    """Every kind of mask in a small size, `rounds` times, then `large` tame ones in large sizes."""
    for turn in range(rounds):
        for place, kind in enumerate(KINDS):
            ground_truth = mask_of(kind, SMALL[(place * 5 + turn * 3) % len(SMALL)], rng)
            yield ground_truth, answer_to(ground_truth, rng)
    for turn in range(large):
        kind = ("ellipse", "rectangle", "polygon", "corner", "two", "column")[turn % 6]
        ground_truth = mask_of(kind, LARGE[turn % len(LARGE)], rng)
        shift = (int(rng.integers(-15, 16)), int(rng.integers(-15, 16)))
        yield ground_truth, transformed(ground_truth, shift=shift, grow=int(rng.integers(-3, 4)))


def ignored(mask: Mask, rng: np.random.Generator) -> Mask | None:
    """Pixels that do not count: none in half of the cases, or a region, noise, all, the mask."""
    kind = int(rng.integers(10))
    if kind < 5:
        return None
    if kind == 9:
        return mask.copy()
    names = ("rectangle", "two", "noise" if mask.size < 20_000 else "ellipse", "full")
    return mask_of(names[kind - 5], mask.shape, rng)  # type: ignore[arg-type]


def shapes(rng: np.random.Generator, size: tuple[int, int]) -> list[dict[str, object]]:
    """Labelled polygons: nested, equally large, out of the frame, degenerate, with fractions."""
    labels = ["target", "target", "Ignore", "ignored area", "flag", "FLAG", "flags", ""]
    found: list[dict[str, object]] = []
    for _ in range(int(rng.integers(0, 9))):
        points = polygon(rng, size)
        found.append({"label": str(rng.choice(labels)), "points": points})
        if rng.random() < 0.4:  # a twin that is equally large and overlaps it
            step = rng.integers(-2, 3, 2)
            twin = [[x + int(step[0]), y + int(step[1])] for x, y in points]
            found.append({"label": str(rng.choice(labels[:4])), "points": twin})
    return found[:16]


def polygon(rng: np.random.Generator, size: tuple[int, int]) -> list[list[float]]:
    """Corners as annotation tools write them, some of them outside of the image."""
    height, width = size
    corners = int(rng.choice([1, 2, 3, 4, 5, 9]))
    low, high = (0.0, 1.0) if rng.random() < 0.6 else (-0.5, 1.5)
    points = rng.uniform(low, high, (corners, 2)) * [width, height]
    if rng.random() < 0.3:
        return [[int(x), int(y)] for x, y in points]
    return [[round(float(x), 3), round(float(y), 3)] for x, y in points]


def box(rng: np.random.Generator) -> list[float]:
    """A box in pixels, half of them with whole numbers, some without area."""
    left, top = rng.integers(0, 60, 2)
    right, bottom = left + rng.integers(0, 40), top + rng.integers(0, 40)
    corners = [int(side) for side in (left, top, right, bottom)]
    if rng.random() < 0.5:
        return corners
    return [round(side + float(rng.random()), 2) for side in corners[:2]] + [
        round(side + 1 + float(rng.random()), 2) for side in corners[2:]
    ]


def encoded(**masks: Any) -> dict[str, Any]:
    """Masks of one size as that size and their run-lengths; None stays None."""
    size = next(list(mask.shape) for mask in masks.values() if mask is not None)
    runs = {
        name: None if mask is None else Rle.from_array(mask).counts for name, mask in masks.items()
    }
    return {"size": size, **runs}
