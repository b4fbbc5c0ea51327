"""IoU of axis-aligned boxes in space, in metres, for answers of the form `box_3d`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.metrics.boxes import rows_of
from harness.types import Box3D

Box3DRows = Sequence[Box3D] | NDArray[np.floating] | Sequence[Sequence[float]]
"""N boxes as rows of centre x, y, z and full extent along x, y, z, in metres."""


def box_iou_3d(ground_truth: Box3DRows, predicted: Box3DRows) -> NDArray[np.float64]:
    """Shared volume over the volume of the union for every pair; float64 of true × predicted.

    This is harness's own definition; no official scorer computes it. The IoU of two boxes without
    volume is 0, and so is that of a box with a negative extent.

    Raises:
        DataError: an operand is not rows of six finite numbers.

    >>> cube = Box3D(0, 0, 0, 2, 2, 2)
    >>> box_iou_3d([cube], [cube, Box3D(1, 0, 0, 2, 2, 2), Box3D(2, 0, 0, 2, 2, 2)]).tolist()
    [[1.0, 0.3333333333333333, 0.0]]
    """
    first = rows_of(ground_truth, 6, "true boxes", finite=True)
    second = rows_of(predicted, 6, "predicted boxes", finite=True)
    low = np.maximum(_corner(first, -0.5)[:, None], _corner(second, -0.5)[None])
    high = np.minimum(_corner(first, 0.5)[:, None], _corner(second, 0.5)[None])
    shared = np.maximum(0.0, high - low).prod(axis=2)
    union = _volume(first)[:, None] + _volume(second)[None] - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def _corner(boxes: NDArray[np.float64], part: float) -> NDArray[np.float64]:
    """Return a corner of each box, N × 3: the lowest for `part` -0.5, the highest for 0.5."""
    return np.asarray(boxes[:, :3] + part * boxes[:, 3:])


def _volume(boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    # From the corners, like the shared volume, so that a box equals itself to the last bit.
    sides = _corner(boxes, 0.5) - _corner(boxes, -0.5)
    return np.asarray(np.maximum(0.0, sides).prod(axis=1))
