"""LISA's rule for turning polygons into a mask with ignored pixels."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.masks import check_size
from harness.metrics.fill_poly import FillVersion, fill_poly

TARGET, IGNORE = 1, 255
MAX_COORDINATE = 2**20  # pixels; crossings in 1/65536 of a pixel stay whole numbers of 64 bits

Polygon: TypeAlias = NDArray[np.int32]


def rasterise(
    shapes: Sequence[Mapping[str, object]], height: int, width: int, *, opencv: FillVersion = "4.8"
) -> NDArray[np.uint8]:
    """Paint ReasonSeg's shapes: uint8 of height × width, 0 background, 1 target, 255 ignored.

    A shape is `{"label": text, "points": [[x, y], …]}` in pixels of the image. A shape labelled
    `flag` (in any case) is skipped, one whose label contains `ignore` paints 255, any other 1.
    Points lose their fraction (−0.9 becomes 0). A polygon is filled including its outline, so that
    one point paints a pixel and two paint a line. Shapes are painted from the largest to the
    smallest, by their pixels within the frame; of equally large ones the earlier wins.

    Equal bit for bit to `get_mask_from_json` in `utils/data_processing.py` of LISA (commit
    3cb2d43) with the numpy that it pins (1.24.2), for up to 16 shapes, and with the OpenCV that it
    pins (4.8.0.74), or with 4.11 and later if `opencv` says so; the OpenCV that is installed draws
    nothing here. LISA orders equally large shapes by an unstable sort: later numpy uses vector
    instructions for it where the processor has them, and then the official mask depends on the
    machine. Ours does not.

    Raises:
        DataError: a shape has no label, or no points, or a point is not two finite numbers of at
            most `MAX_COORDINATE` pixels; the message names the shape.
        MaskError: the size is no size of an image.

    >>> square = {"label": "target", "points": [[0, 0], [3.9, 0], [3.9, 2], [0, 2]]}
    >>> hole = {"label": "Ignored area", "points": [[1, 1], [2, 1]]}
    >>> rasterise([hole, square], 4, 5)
    array([[  1,   1,   1,   1,   0],
           [  1, 255, 255,   1,   0],
           [  1,   1,   1,   1,   0],
           [  0,   0,   0,   0,   0]], dtype=uint8)
    """
    check_size(height, width)
    labelled = [(_label(shape, place), shape, place) for place, shape in enumerate(shapes)]
    painted = [
        (IGNORE if "ignore" in label else TARGET, _polygon(shape, place))
        for label, shape, place in labelled
        if label != "flag"
    ]
    areas = [
        np.count_nonzero(fill_poly(polygon, height, width, version=opencv))
        for _, polygon in painted
    ]
    canvas = np.zeros((height, width), dtype=np.uint8)
    for index in np.argsort(areas, kind="stable")[::-1]:
        value, polygon = painted[index]
        canvas[fill_poly(polygon, height, width, version=opencv)] = value
    return canvas


def _label(shape: object, place: int) -> str:
    label = shape.get("label") if isinstance(shape, Mapping) else None
    if not isinstance(label, str):
        raise DataError(
            f"shape {place}",
            expected='{"label": text, "points": [[x, y], …]}',
            found=repr(shape)[:60],
        )
    return label.lower()


def _polygon(shape: Mapping[str, object], place: int) -> Polygon:
    points = shape.get("points")
    if not isinstance(points, (list, tuple)) or not points or not all(map(_is_point, points)):
        raise DataError(
            f"points of shape {place} ({shape['label']!r})",
            expected=f"at least one [x, y] of finite numbers up to ±{MAX_COORDINATE}",
            found=_first_fault(points),
        )
    return np.array(points, dtype=np.float64).astype(np.int32)


def _is_point(point: object) -> bool:
    return (
        isinstance(point, (list, tuple))
        and len(point) == 2
        and all(type(value) in (int, float) and abs(value) <= MAX_COORDINATE for value in point)
    )


def _first_fault(points: object) -> str:
    if isinstance(points, (list, tuple)) and points:
        return repr(next(point for point in points if not _is_point(point)))[:60]
    return repr(points)[:60]
