"""Salience of an image, or of the clearest frame of a video, and the objects that stand out in it.

The method is robust background detection (Zhu, Liang, Wei, Sun: "Saliency Optimization from Robust
Background Detection", CVPR 2014). A region that is connected to a long stretch of the image's
border through regions like it is background; what differs from the background around it is
foreground; a least-squares problem on the graph of neighbours reconciles the two. In a video, what
moves relative to the camera's motion is foreground as well.
"""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.sparse.csgraph import dijkstra
from scipy.sparse.linalg import spsolve
from scipy.spatial.distance import cdist

from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.models.propagators.flow import Field as FlowField
from harness.models.propagators.flow import dense_flow, pixel_grid
from harness.models.saliency.superpixels import Floats, Superpixels, superpixels
from harness.segmentation import ObjectPrompt
from harness.types import Box, Point

Field = NDArray[np.float32]

REGIONS = 300  # superpixels; the paper's 200 to 300
MAX_SIDE = 320  # pixels; superpixels are then about 14 pixels across

GEODESIC_SCALE = 7.0  # Lab; the paper's σ_clr, for which 5 to 10 is usual
SPATIAL_SCALE = 0.25  # longest sides of the image; the paper's σ_spa
SMOOTHING_SCALE = 10.0  # Lab; how alike neighbours must be to be made equal
SMOOTHING_FLOOR = 0.1  # the paper's μ: neighbours are a little alike, whatever their colours
CENTRE_SCALE = 0.3  # sides of the image; photographers put their subject near the middle
VISIBLE = 2.3  # Lab; the least difference that people see, below which nothing stands out
TOUCHING = 1e-4  # Lab; a step between regions of one colour, not zero, which is "no step" to scipy
DECIMALS = 6  # results are rounded, so that the order of additions cannot move a threshold

STRIDE = 8  # pixels between the places at which the camera's motion is measured
MIN_PLACES = 16
TOLERANCE = 2.0  # pixels by which a place may miss the camera's motion and still belong to it
NOISE_FLOOR = 1.0  # pixels; motion that flow cannot tell from nothing
NOISE_FACTOR = 3.0  # of the median residual, as above

MIN_SHARE = 0.002  # of the image: less is noise
MIN_WEIGHT = 0.25  # of the heaviest object's: less is a fragment
MAX_POINTS = 3  # inside an object, and as many beside it


@dataclass(frozen=True, slots=True)
class SalienceMap:
    """Salience of each pixel of one frame, by colour and by motion."""

    index: int
    """The frame."""
    field: Field
    """Height × width of the shrunk frame, from 0 to 1."""
    clarity: float
    """Contrast of the salient part to the rest, in the map and in motion; from 0 to 2."""


def salience_map(media: Media, index: int) -> SalienceMap:
    """The map of one frame, which is compared with the frames before and after it."""
    frame = shrink_frame(media.frame(index))
    near = [shrink_frame(media.frame(i)) for i in (index - 1, index + 1) if 0 <= i < len(media)]
    regions = superpixels(frame, REGIONS)
    motion = motion_evidence(regions, frame, near) if near else None
    field = regions.paint(salience(regions, (frame.shape[1], frame.shape[0]), motion=motion))
    clarity = gap(field, field)
    if motion is not None:
        clarity += gap(regions.paint(motion), field)
    return SalienceMap(index, field, clarity)


def clearest(media: Media, candidates: int) -> SalienceMap:
    """The clearest map among evenly spread frames; of equal ones the nearest to the middle."""
    middle = (len(media) - 1) / 2
    maps = (salience_map(media, index) for index in spread(len(media), candidates))
    return max(maps, key=lambda entry: (entry.clarity, -abs(entry.index - middle)))


def frames_seen(length: int, candidates: int) -> int:
    """Return the number of frames that `clearest` looks at: the candidates and their neighbours."""
    chosen = spread(length, candidates)
    near = {index + step for index in chosen for step in (-1, 0, 1)}
    return len(near & set(range(length)))


def spread(length: int, count: int) -> list[int]:
    """Return at most `count` different indices below `length`, in the middles of equal stretches.

    >>> spread(10, 3), spread(2, 5)
    ([1, 5, 8], [0, 1])
    """
    count = min(length, count)
    return [((2 * place + 1) * length) // (2 * count) for place in range(count)]


def otsu_mask(field: Field) -> NDArray[np.bool_]:
    """Return the salient pixels of a map from 0 to 1, by Otsu's threshold; none of a flat map."""
    levels = np.rint(field * 255).astype(np.uint8)
    if levels.min() == levels.max():
        return np.zeros(levels.shape, dtype=np.bool_)
    level, _ = cv2.threshold(levels, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    return levels > level


def gap(field: Field, salience: Field) -> float:
    """Return the mean of a field on the salient part less its mean elsewhere; 0 without such a
    part.
    """
    bright = otsu_mask(salience)
    if bright.all() or not bright.any():
        return 0.0
    inside, outside = field[bright], field[~bright]
    return round(float(inside.mean(dtype=np.float64) - outside.mean(dtype=np.float64)), 6)


def shrink_frame(frame: Frame) -> Frame:
    """The frame with its longest side at most MAX_SIDE pixels."""
    height, width = frame.shape[:2]
    scale = min(1.0, MAX_SIDE / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return cv2.resize(frame, size, interpolation=cv2.INTER_AREA).astype(np.uint8)


def background_probability(regions: Superpixels, distance: Floats, *, scale: float) -> Floats:
    """Return each region's probability to be background: the paper's boundary connectivity.

    A region's length along the border and its area are those of all regions, each counted by how
    short the path to it is, where a path's length adds up the differences along it. Length over
    the root of area is large for what leaves the image.

    Args:
        regions: the partition, for its neighbours and its border.
        distance: count × count differences between regions, symmetric, zero on the diagonal.
        scale: the difference at which two regions stop belonging together.
    """
    border = regions.border()
    link = _links(regions, border)
    # The mean step to the most similar neighbour is texture, not an edge.
    nearest = np.where(regions.adjacent(), distance, np.inf).min(axis=1)
    finite = nearest[np.isfinite(nearest)]
    usual = float(finite.mean()) if finite.size else 0.0
    steps = np.where(link, np.maximum(distance - usual, TOUCHING), 0.0)
    # Steps are the same both ways: an undirected search would look at each of them twice.
    together = gaussian(dijkstra(csc_array(steps), directed=True) / scale)
    length = together[:, border].sum(axis=1)
    connectivity = length / np.sqrt(together.sum(axis=1))
    return 1 - gaussian(connectivity)


def gaussian(values: Floats) -> Floats:
    """The bell exp(-x² / 2), 1 at 0."""
    return np.asarray(np.exp(-np.square(values) / 2), dtype=np.float64)


def contrast(regions: Superpixels, distance: Floats, background: Floats) -> Floats:
    """Difference of each region from the background around it, in the unit of `distance`.

    The paper's background weighted contrast, divided by one number for the image (the largest
    sum of weights), so that it has a unit and is at most a weighted mean of differences.
    """
    weight = gaussian(cdist(regions.centres, regions.centres) / SPATIAL_SCALE) * background
    total = np.sum(distance * weight, axis=1, dtype=np.float64)
    return np.asarray(total / max(float(weight.sum(axis=1).max()), 1e-12))


def salience(
    regions: Superpixels, size: tuple[int, int], *, motion: Floats | None = None
) -> Floats:
    """Return the salience of each region, from 0 to 1; all zero where nothing is salient.

    Args:
        regions: superpixels of the image.
        size: (width, height) of the image in pixels.
        motion: evidence from 0 to 1 that a region moves on its own; None for a still image.
    """
    distance = cdist(regions.colours, regions.colours)
    background = background_probability(regions, distance, scale=GEODESIC_SCALE)
    difference = contrast(regions, distance, background)
    foreground = _stretch(difference) if difference.max() >= VISIBLE else 0 * difference
    if motion is not None:
        foreground = foreground / 2 + motion
    sides = np.array(size) / max(size)
    away = (regions.centres - sides / 2) / sides
    foreground = _stretch(foreground * gaussian(np.hypot(*away.T) / CENTRE_SCALE))
    if not foreground.any():
        return foreground
    foreground[foreground < foreground.mean()] = 0
    return _stretch(_minimize_cost(regions, distance, foreground, background))


def _minimize_cost(
    regions: Superpixels, distance: Floats, foreground: Floats, background: Floats
) -> Floats:
    """Minimise Σ b s² + Σ f (s - 1)² + Σ w (s_i - s_j)², the paper's cost function."""
    link = _links(regions, regions.border())
    alike = link * (gaussian(distance / SMOOTHING_SCALE) + SMOOTHING_FLOOR)
    system = -alike
    np.fill_diagonal(system, alike.sum(axis=1) + foreground + background + 1e-9)
    return np.asarray(spsolve(csc_array(system), foreground))


def _links(regions: Superpixels, border: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the links of neighbours, and of all border regions: objects may continue outside."""
    link = regions.adjacent() | (border[:, None] & border[None, :])
    np.fill_diagonal(link, val=False)
    return link


def _stretch(values: Floats) -> Floats:
    """Scale values to the range 0 to 1; zero where they are all equal."""
    low, high = values.min(), values.max()
    if high - low < 1e-9:
        return np.zeros_like(values)
    return np.asarray(np.round((values - low) / (high - low), DECIMALS))


def motion_evidence(regions: Superpixels, frame: Frame, neighbours: list[Frame]) -> Floats:
    """Evidence from 0 to 1 that each region moves against the camera and against the border.

    Flow to each neighbouring frame loses the camera's part (a homography, as for a plane or a
    turning camera); what is left is motion of its own or parallax. The lesser of the neighbours
    counts, because what is covered in one has no true flow there. Parallax is told apart as
    background is told by colour: it is connected to the image's border through regions that
    move alike (`background_probability`, with motions in the place of colours).

    Args:
        regions: superpixels of `frame`.
        frame: the image in which evidence is wanted.
        neighbours: frames before and after it, of the same size; at least one.
    """
    flows = [
        dense_flow(frame, neighbour, max_side=max(frame.shape[:2])) for neighbour in neighbours
    ]
    residual = [flow - camera_motion(flow) for flow in flows]
    vectors = np.stack([regions.mean(field[..., axis]) for field in residual for axis in (0, 1)])
    lengths = np.stack([np.linalg.norm(field, axis=2) for field in residual]).min(axis=0)
    speed = regions.mean(lengths)
    noise = NOISE_FACTOR * float(np.median(speed)) + NOISE_FLOOR
    moving = 1 - gaussian(speed / noise)
    fixed = background_probability(regions, cdist(vectors.T, vectors.T), scale=noise)
    return moving * (1 - fixed)


def camera_motion(flow: FlowField) -> FlowField:
    """Return the homography that most of a flow follows, as a flow; zero where there is none."""
    height, width = flow.shape[:2]
    grid = pixel_grid((width, height))
    start = grid[::STRIDE, ::STRIDE].reshape(-1, 2)
    end = start + flow[::STRIDE, ::STRIDE].reshape(-1, 2)
    seen = np.all((end >= 0) & (end < (width, height)), axis=1)
    if np.count_nonzero(seen) < MIN_PLACES:
        return np.zeros_like(flow)
    cv2.setRNGSeed(0)
    homography: Any = cv2.findHomography(start[seen], end[seen], cv2.RANSAC, TOLERANCE)[0]
    if homography is None or not np.isfinite(homography).all():
        return np.zeros_like(flow)
    moved = cv2.perspectiveTransform(grid.reshape(-1, 1, 2), homography).reshape(height, width, 2)
    return (moved - grid).astype(np.float32)


@dataclass(frozen=True, slots=True)
class SalientObject:
    """One connected salient part of an image."""

    prompt: ObjectPrompt
    """Prompt in image pixels: box, points inside the object, and points in the box beside it."""
    score: float
    """Mean salience, from 0 to 1."""


def salient_objects(field: Field, size: tuple[int, int]) -> list[SalientObject]:
    """The objects of a salience map, the one with most salience in total first.

    Args:
        field: a map from 0 to 1, height × width of a shrunk image.
        size: (width, height) of the image that prompts are for.
    """
    bright = otsu_mask(field).astype(np.uint8)
    firm = cv2.morphologyEx(bright, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, labels = cv2.connectedComponents(firm, connectivity=8)
    parts = [labels == label for label in range(1, count)]
    parts = [part for part in parts if part.mean() >= MIN_SHARE]
    weights = [float(field[part].sum(dtype=np.float64)) for part in parts]
    order = sorted(range(len(parts)), key=lambda i: -weights[i])
    return [
        SalientObject(prompt_for(parts[i], size), float(field[parts[i]].mean()))
        for i in order
        if weights[i] >= MIN_WEIGHT * max(weights)
    ]


def prompt_for(part: BoolArray, size: tuple[int, int]) -> ObjectPrompt:
    """Return a box around a part and points in and beside it, in pixels of an image (width,
    height).
    """
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    across, down = size[0] / part.shape[1], size[1] / part.shape[0]
    beside = np.zeros_like(part)
    beside[top:bottom, left:right] = ~part[top:bottom, left:right]
    return ObjectPrompt(
        box=Box(left * across, top * down, right * across, bottom * down),
        positive=tuple(Point(x * across, y * down) for x, y in inner_points(part)),
        negative=tuple(Point(x * across, y * down) for x, y in inner_points(beside)),
    )


def inner_points(part: BoolArray) -> list[tuple[float, float]]:
    """Centres (x, y) of the pixels deepest inside a part, each far from those before it.

    Depth is the distance to the outside; a point rules out the disc around it that fits in the
    part, and points less than half as deep as the first are left out.
    """
    depth = cv2.distanceTransform(np.pad(part.astype(np.uint8), 1), cv2.DIST_L2, 5)[1:-1, 1:-1]
    y, x = np.mgrid[: part.shape[0], : part.shape[1]]
    points: list[tuple[float, float]] = []
    first = float(depth.max())
    while len(points) < MAX_POINTS and depth.max() > 0 and depth.max() >= first / 2:
        row, column = np.unravel_index(int(depth.argmax()), depth.shape)
        radius = float(depth[row, column])
        depth = np.where(np.hypot(x - column, y - row) <= 2 * radius, 0, depth)
        points.append((float(column) + 0.5, float(row) + 0.5))
    return points
