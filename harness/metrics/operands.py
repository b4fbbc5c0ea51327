"""Operands of mask metrics: two masks or tracks of one kind and one size, never broadcast."""

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import MaskError
from harness.masks import BoolArray, Rle

Mask: TypeAlias = Rle | BoolArray
"""One frame: a run-length, or a boolean array of height × width."""
Track: TypeAlias = Sequence[Rle] | BoolArray
"""One mask a frame: run-lengths, or a boolean array of frames × height × width."""


def check_masks(ground_truth: Mask, predicted: Mask, *, ignore: Mask | None = None) -> None:
    """Raise MaskError unless all masks are of one kind and of one size.

    A kind is a run-length or a boolean array of height × width. Nothing is converted: an array of
    probabilities or of labels has to become boolean where its threshold or label is known.

    >>> check_masks(np.ones((2, 3), bool), np.ones((2, 4), bool))
    Traceback (most recent call last):
      ...
    harness.errors.MaskError: masks to compare: expected run-lengths of one size or boolean arrays \
of one height × width, found 2 × 3 bool array and 2 × 4 bool array
    """
    masks = [ground_truth, predicted] if ignore is None else [ground_truth, predicted, ignore]
    kinds = {_comparison_key(mask, 2) for mask in masks}
    if len(kinds) != 1 or None in kinds:
        _refuse("masks to compare", "height × width", masks)


def check_tracks(ground_truth: Track, predicted: Track, *, ignore: Track | None = None) -> None:
    """Raise MaskError unless the tracks are of one kind and have equally many frames, at least one.

    Arrays must also be of one size; run-lengths are checked frame by frame by `check_masks`.
    """
    tracks = [ground_truth, predicted] if ignore is None else [ground_truth, predicted, ignore]
    if any(isinstance(track, np.ndarray) for track in tracks):
        kinds = {_comparison_key(track, 3) for track in tracks}
    else:
        kinds = {("frames", len(track)) if len(track) else None for track in tracks}
    if len(kinds) != 1 or None in kinds:
        _refuse("tracks to compare", "frames × height × width", tracks)


def each_frame(
    metric: Callable[[Mask, Mask, Mask | None], float],
    ground_truth: Track,
    predicted: Track,
    void: Track | None,
) -> NDArray[np.float64]:
    """Return a metric of each frame of two tracks; float64 of shape (frames,)."""
    check_tracks(ground_truth, predicted, ignore=void)
    voids = [None] * len(ground_truth) if void is None else void
    frames = zip(ground_truth, predicted, voids, strict=True)
    return np.array([metric(*frame) for frame in frames], dtype=np.float64)


def _comparison_key(mask: object, dimensions: int) -> tuple[object, ...] | None:
    """Return the properties that two masks must share to be comparable; None for anything else."""
    if isinstance(mask, Rle):
        return "run-length", mask.height, mask.width
    if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.ndim == dimensions:
        return ("array", *mask.shape) if mask.size else None
    return None


def _refuse(what: str, shape: str, operands: Sequence[object]) -> NoReturn:
    raise MaskError(
        what,
        expected=f"run-lengths of one size or boolean arrays of one {shape}",
        found=" and ".join(map(_describe, operands)),
    )


def _describe(operand: object) -> str:
    if isinstance(operand, Rle):
        return f"{operand.height} × {operand.width} run-length"
    if isinstance(operand, np.ndarray):
        return f"{' × '.join(map(str, operand.shape)) or 'scalar'} {operand.dtype} array"
    if isinstance(operand, Sequence):
        return f"{len(operand)} frame(s)"
    return type(operand).__name__
