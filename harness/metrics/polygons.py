"""Masks drawn from polygons, pixel by pixel as OpenCV's `fillPoly` and LISA's rule draw them.

`rasterise` paints ReasonSeg's shapes, `fill_poly` one polygon. With OpenCV 4.11 the pixels of
`fillPoly` changed: before it, a row's spans end at the nearest pixel of each crossing; since then,
at the outermost pixels between two crossings. Ground truth that a benchmark draws from polygons
depends on that, so the version is an argument. The installed OpenCV is not called: everything is
computed here, in whole numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from harness.errors import DataError
from harness.masks import BoolArray, check_size

FillVersion: TypeAlias = Literal["4.8", "4.11"]
"""Version of OpenCV whose pixels are drawn: "4.8" for 4.5 to 4.10, "4.11" for 4.11 to 5.0."""
FILL_VERSIONS: tuple[FillVersion, ...] = get_args(FillVersion)

IntArray: TypeAlias = NDArray[np.int64]
Polygon: TypeAlias = NDArray[np.int32]
Point: TypeAlias = tuple[int, int]

TARGET, IGNORE = 1, 255  # values of pixels
MAX_COORDINATE = 2**20  # pixels; crossings in 1/65536 of a pixel stay whole numbers of 64 bits
BITS = 16  # crossings are in 1/65536 of a pixel
HALF, BELOW_ONE = 1 << (BITS - 1), (1 << BITS) - 1  # half a pixel, and just less than a pixel
MAX_CELLS = 2**16  # pixels or crossings held at once while rows are filled: 512 KiB


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
    3cb2d43), for up to 16 shapes, with the numpy that it pins (1.24.2) and the OpenCV that it pins
    (4.8.0.74), or 4.11 and later if `opencv` says so. LISA orders equally large shapes by an
    unstable sort: later numpy uses the processor's vector instructions for it, so that the official
    mask depends on the machine. This one does not.

    Raises:
        DataError: a shape has no label, or no points, or a point is not two finite numbers of at
            most `MAX_COORDINATE` pixels; the message names the shape.
        MaskError: an image cannot have that size.

    >>> square = {"label": "target", "points": [[0, 0], [3.9, 0], [3.9, 2], [0, 2]]}
    >>> hole = {"label": "Ignored area", "points": [[1, 1], [2, 1]]}
    >>> rasterise([hole, square], 4, 5)
    array([[  1,   1,   1,   1,   0],
           [  1, 255, 255,   1,   0],
           [  1,   1,   1,   1,   0],
           [  0,   0,   0,   0,   0]], dtype=uint8)
    """
    check_size(height, width)
    labelled = [(_label(shape, number), shape, number) for number, shape in enumerate(shapes)]
    painted = [
        (IGNORE if "ignore" in label else TARGET, _polygon(shape, number))
        for label, shape, number in labelled
        if label != "flag"
    ]
    areas = [0] * len(painted)
    if len(painted) > 1:
        filled = (fill_poly(polygon, height, width, version=opencv) for _, polygon in painted)
        areas = [int(np.count_nonzero(pixels)) for pixels in filled]
    canvas = np.zeros((height, width), dtype=np.uint8)
    for index in np.argsort(areas, kind="stable")[::-1]:
        value, polygon = painted[index]
        canvas[fill_poly(polygon, height, width, version=opencv)] = value
    return canvas


def _label(shape: object, number: int) -> str:
    label = shape.get("label") if isinstance(shape, Mapping) else None
    if not isinstance(label, str):
        raise DataError(
            f"shape {number}",
            expected='{"label": text, "points": [[x, y], …]}',
            found=repr(shape)[:60],
        )
    return label.lower()


def _polygon(shape: Mapping[str, object], number: int) -> Polygon:
    """Return a shape's points as N × 2 whole numbers; raise DataError for none, or unfit ones."""
    points = shape.get("points")
    if not isinstance(points, (list, tuple)) or not points or not all(map(_is_point, points)):
        raise DataError(
            f"points of shape {number} ({shape['label']!r})",
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


def fill_poly(
    corners: NDArray[np.integer], height: int, width: int, *, version: FillVersion
) -> BoolArray:
    """Return the pixels of a closed polygon, outline and filling: bool of height × width.

    Args:
        corners: N × 2 whole numbers (x, y) in pixels of the frame, within ±2²⁰, which may lie
            outside of it. One corner is a pixel, two are a line. A polygon that crosses itself is
            filled by the even-odd rule.
        height, width: The frame's size in pixels.
        version: OpenCV's version; see `FillVersion`.

    Equal bit for bit to `cv2.fillPoly` of one polygon without `shift` and `lineType` (and so to
    `cv2.polylines` before it, which draws the same outline): on 24,000 polygons from a seed and
    256 real outlines with 4.8.0.74, 4.10, 4.11, 4.12 and 5.0.

    >>> triangle = np.array([[1, 6], [1, 5], [2, 7]])
    >>> [int(fill_poly(triangle, 8, 4, version=version)[6, 2]) for version in ("4.8", "4.11")]
    [1, 0]
    """
    inside = np.zeros((height, width), dtype=np.bool_)
    if not len(corners) or not inside.size:
        return inside
    ends = np.asarray(corners, dtype=np.int64)
    starts = np.roll(ends, 1, axis=0)
    clipped = np.stack([starts, ends], axis=1)
    frame = np.array([width, height])
    leaves_frame = np.any((clipped < 0) | (clipped >= frame), axis=(1, 2))
    is_visible = np.ones(len(ends), dtype=np.bool_)
    for index in np.flatnonzero(leaves_frame).tolist():
        start, end = clipped[index].tolist()
        clipped[index], is_visible[index] = _clip_line(start, end, width, height)
    _draw_lines(inside, clipped[is_visible])
    _fill_edges(inside, starts, ends, clipped, leaves_frame, version)
    return inside


def _clip_line(
    start: list[int], end: list[int], width: int, height: int
) -> tuple[tuple[Point, Point], bool]:
    """Clip a line to the frame, first by rows, then by columns; return True if any of it remains.

    The ends of a line that misses the frame may have been moved: `fillPoly` goes on with them.
    """
    (x0, y0), (x1, y1) = start, end
    right, bottom = width - 1, height - 1

    def sides(x: int, y: int) -> int:  # the frame's sides that a point is beyond, as bits
        return (x < 0) | (x > right) << 1 | (y < 0) << 2 | (y > bottom) << 3

    first, second = sides(x0, y0), sides(x1, y1)
    if not first & second:
        if first & 12:  # above or below the frame
            edge = 0 if y0 < 0 else bottom
            x0, y0 = x0 + _quotient((edge - y0) * (x1 - x0), y1 - y0), edge
            first = sides(x0, y0)
        if second & 12:
            edge = 0 if y1 < 0 else bottom
            x1, y1 = x1 + _quotient((edge - y1) * (x1 - x0), y1 - y0), edge
            second = sides(x1, y1)
    if not first & second:
        if first:
            edge = 0 if x0 < 0 else right
            x0, y0 = edge, y0 + _quotient((edge - x0) * (y1 - y0), x1 - x0)
        if second:
            edge = 0 if x1 < 0 else right
            x1, y1 = edge, y1 + _quotient((edge - x1) * (y1 - y0), x1 - x0)
        first = second = 0
    return ((x0, y0), (x1, y1)), not first | second


def _quotient(numerator: int, denominator: int) -> int:
    """Divide and drop the fraction, as C does; Python's `//` rounds down."""
    size = abs(numerator) // abs(denominator)
    return size if (numerator < 0) == (denominator < 0) else -size


def _draw_lines(inside: BoolArray, lines: IntArray) -> None:
    """Set the pixels of lines (N × 2 ends × (x, y)) by Bresenham's rule, from left to right."""
    backwards = lines[:, 0, 0] > lines[:, 1, 0]
    lines = np.where(backwards[:, None, None], lines[:, ::-1], lines)
    start, step = lines[:, 0], lines[:, 1] - lines[:, 0]
    upwards, size = np.sign(step), np.abs(step)
    steep = size[:, 1] > size[:, 0]
    long, short = size.max(axis=1), size.min(axis=1)
    line, along = _expand_counts(long + 1)  # each pixel's line, and its step on the longer axis
    span = np.maximum(long[line], 1)
    across = (2 * short[line] * along + span - 1) // (2 * span)  # on the shorter axis
    moved = np.where(steep[line, None], np.stack([across, along], 1), np.stack([along, across], 1))
    x, y = (start[line] + upwards[line] * moved).T
    inside[y, x] = True


def _expand_counts(group_sizes: IntArray) -> tuple[IntArray, IntArray]:
    """Return (group, number in the group) of each element of groups of these sizes.

    Sizes (2, 1, 3) give the groups 001222 and the numbers 010012.
    """
    group = np.repeat(np.arange(len(group_sizes)), group_sizes)
    first = np.cumsum(group_sizes) - group_sizes
    return group, np.arange(len(group)) - np.repeat(first, group_sizes)


def _fill_edges(
    inside: BoolArray,
    starts: IntArray,
    ends: IntArray,
    clipped: IntArray,
    leaves_frame: BoolArray,
    version: FillVersion,
) -> None:
    """Set the pixels between the crossings of each row with the edges, taken in pairs.

    Args:
        inside: The pixels, of height × width.
        starts, ends: First and last pixel of each edge, N × (x, y).
        clipped: The edges clipped to the frame, N × 2 ends × (x, y).
        leaves_frame: True for each edge with an end outside of the frame.
        version: OpenCV's version; see `FillVersion`.
    """
    # Each edge as a line: x at row 0 and slope, both in 1/65536 of a pixel. As in OpenCV, an edge
    # that leaves the frame is replaced by its clipped part, unless that has no height.
    height, width = inside.shape
    lines = np.stack([starts, ends], axis=1)
    moved = leaves_frame & (clipped[:, 0, 1] != clipped[:, 1, 1])
    lines[moved] = clipped[moved]
    shift = np.zeros(len(ends), dtype=np.int64)
    if version == "4.8":
        shift[~leaves_frame] = HALF  # to round; an edge that leaves the frame is not rounded
        ceiling = 0
    else:
        lines[..., 0] = clipped[..., 0]
        ceiling = BELOW_ONE  # a span's left end is rounded up
    sloped = starts[:, 1] != ends[:, 1]
    starts, ends, lines, shift = starts[sloped], ends[sloped], lines[sloped], shift[sloped]
    run = (lines[:, 1] - lines[:, 0]) << np.array([BITS, 0])
    slope = np.sign(run[:, 0]) * np.sign(run[:, 1]) * (abs(run[:, 0]) // abs(run[:, 1]))
    upper = (starts[:, 1] > ends[:, 1]).astype(np.int64)
    x, y = lines[np.arange(len(lines)), upper].T
    x = (x << BITS) + shift - y * slope  # where the edge crosses row 0
    # Fill several rows at once, as many as `MAX_CELLS` allows.
    top, bottom = np.minimum(starts[:, 1], ends[:, 1]), np.maximum(starts[:, 1], ends[:, 1])
    highest, lowest = top.min(initial=height), min(bottom.max(initial=0), height)
    rows = max(1, MAX_CELLS // max(width, len(x)))
    for first in range(max(int(highest), 0), int(lowest), rows):
        last = min(first + rows, int(lowest))
        from_row = np.clip(top, first, last)
        edge, row_in_edge = _expand_counts(np.clip(bottom, first, last) - from_row)
        row = from_row[edge] + row_in_edge
        crossing = x[edge] + row * slope[edge]
        order = np.lexsort((crossing, row))  # each row has an even number of crossings
        row, crossing = row[order][::2], crossing[order]
        left = np.maximum((crossing[::2] + ceiling) >> BITS, 0)
        right = np.minimum(crossing[1::2] >> BITS, width - 1)
        filled = left <= right
        if not filled.any():
            continue
        row, left, right = row[filled] - first, left[filled], right[filled]
        # +1 where a span starts, −1 after its end: the running sum is positive within spans.
        start, stop = int(left.min()), int(right.max()) + 1
        change = np.zeros((last - first, stop - start + 1), dtype=np.int32)
        np.add.at(change, (row, left - start), 1)
        np.add.at(change, (row, right + 1 - start), -1)
        inside[first:last, start:stop] |= np.cumsum(change, axis=1, dtype=np.int32)[:, :-1] > 0
