"""Compute the salience of an image or a video's clearest frame, and the objects that stand out.

The method is robust background detection (Zhu, Liang, Wei, Sun: "Saliency Optimization from Robust
Background Detection", CVPR 2014). A region that is connected to a long part of the image's border
through similar regions is background; a region that differs from the background around it is
foreground; a least-squares problem on the graph of neighbours reconciles the two. In a video, a
region that moves relative to the camera's motion is foreground as well.

The model `saliency` and the nodes without weights call it. Fields are height × width of a shrunk
frame; prompts are in pixels of the image.
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

GEODESIC_SCALE = 7.0  # CIELAB distance; the paper's σ_clr, for which 5 to 10 is usual
SPATIAL_SCALE = 0.25  # in longest sides of the image; the paper's σ_spa
SMOOTHING_SCALE = 10.0  # CIELAB distance at which neighbours' saliences are smoothed less
SMOOTHING_FLOOR = 0.1  # weight of smoothing between any neighbours; the paper's μ
CENTRE_SCALE = 0.3  # in sides of the image; photographers put their subject near the middle
MIN_VISIBLE = 2.3
"""CIELAB; the smallest difference that people see: below it nothing stands out."""
MIN_STEP = 1e-4  # CIELAB; a step between equal colours: scipy takes 0 for "not connected"
DECIMALS = 6  # results are rounded, so that the order of additions cannot move a threshold

MOTION_STRIDE = 8  # pixels between the points at which the camera's motion is measured
MIN_MOTION_POINTS = 16  # smallest number of such points
MOTION_TOLERANCE = 2.0  # pixels by which a point's motion may differ from the camera's
NOISE_FLOOR = 1.0  # pixels; optical flow cannot measure smaller motions
NOISE_FACTOR = 3.0  # multiple of the median residual motion that counts as noise

MIN_SHARE = 0.002  # of the image: a smaller object is noise
MIN_WEIGHT = 0.25  # of the heaviest object's weight: a lighter object is a fragment
MAX_POINTS = 3  # positive points of a prompt, and as many negative ones


@dataclass(frozen=True, slots=True)
class SalienceMap:
    """Salience of each pixel of one frame, by colour and by motion."""

    index: int
    """Number of the frame."""
    field: Field
    """Salience from 0 to 1, height × width of the shrunk frame."""
    clarity: float
    """Contrast of the salient part to the rest, in the map and in motion; from 0 to 2."""


def salience_map(media: Media, index: int) -> SalienceMap:
    """Return the map of one frame; its motion is measured to the frames before and after it."""
    frame = shrink_frame(media.frame(index))
    neighbours = [
        shrink_frame(media.frame(neighbour))
        for neighbour in (index - 1, index + 1)
        if 0 <= neighbour < len(media)
    ]
    regions = superpixels(frame, REGIONS)
    motion = motion_evidence(regions, frame, neighbours) if neighbours else None
    field = regions.paint(salience(regions, (frame.shape[1], frame.shape[0]), motion=motion))
    clarity = gap(field, field)
    if motion is not None:
        clarity += gap(regions.paint(motion), field)
    return SalienceMap(index, field, clarity)


def clearest(media: Media, candidates: int) -> SalienceMap:
    """Return the clearest map among `candidates` evenly spread frames; ties go to the middle."""
    middle = (len(media) - 1) / 2
    maps = (salience_map(media, index) for index in spread(len(media), candidates))
    return max(maps, key=lambda entry: (entry.clarity, -abs(entry.index - middle)))


def frames_seen(length: int, candidates: int) -> int:
    """Return the number of frames that `clearest` decodes: the candidates and their neighbours."""
    indices = spread(length, candidates)
    near = {index + step for index in indices for step in (-1, 0, 1)}
    return len(near & set(range(length)))


def spread(length: int, n_indices: int) -> list[int]:
    """Return at most `n_indices` indices below `length`: the middles of equally long parts.

    >>> spread(10, 3), spread(2, 5)
    ([1, 5, 8], [0, 1])
    """
    n_indices = min(length, n_indices)
    return [((2 * part + 1) * length) // (2 * n_indices) for part in range(n_indices)]


def otsu_mask(field: Field) -> NDArray[np.bool_]:
    """Return the salient pixels of a map (0 to 1) by Otsu's threshold; a flat map has none."""
    levels = np.rint(field * 255).astype(np.uint8)
    if levels.min() == levels.max():
        return np.zeros(levels.shape, dtype=np.bool_)
    level, _ = cv2.threshold(levels, 0, 255, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    return levels > level


def gap(field: Field, salience: Field) -> float:
    """Return a field's mean on the salient part minus its mean elsewhere; 0 without either part."""
    bright = otsu_mask(salience)
    if bright.all() or not bright.any():
        return 0.0
    inside, outside = field[bright], field[~bright]
    return round(float(inside.mean(dtype=np.float64) - outside.mean(dtype=np.float64)), 6)


def shrink_frame(frame: Frame) -> Frame:
    """Return the frame, shrunk so that its longest side is at most MAX_SIDE pixels."""
    height, width = frame.shape[:2]
    scale = min(1.0, MAX_SIDE / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return cv2.resize(frame, size, interpolation=cv2.INTER_AREA).astype(np.uint8)


def background_probability(regions: Superpixels, distance: Floats, *, scale: float) -> Floats:
    """Return each region's probability to be background, by the paper's boundary connectivity.

    The connectivity of a region is length / √area. Both are sums over all regions (the length over
    those at the border), weighted by exp(-d² / 2 scale²), where d is the length of the shortest
    path to the region and a path's length is the sum of the differences along it.

    Args:
        regions: The partition, for its neighbours and its border.
        distance: Differences between regions, count × count, symmetric, zero on the diagonal.
        scale: Difference at which two regions no longer belong together.
    """
    border = regions.border()
    link = _links(regions, border)
    # The mean step to the most similar neighbour is texture, not an edge.
    nearest = np.where(regions.adjacent(), distance, np.inf).min(axis=1)
    finite = nearest[np.isfinite(nearest)]
    texture = float(finite.mean()) if finite.size else 0.0
    steps = np.where(link, np.maximum(distance - texture, MIN_STEP), 0.0)
    # The matrix is symmetric; with `directed=False`, scipy would visit each step twice.
    together = gaussian(dijkstra(csc_array(steps), directed=True) / scale)
    length = together[:, border].sum(axis=1)
    connectivity = length / np.sqrt(together.sum(axis=1))
    return 1 - gaussian(connectivity)


def gaussian(values: Floats) -> Floats:
    """Return exp(-x² / 2) of each value."""
    return np.asarray(np.exp(-np.square(values) / 2), dtype=np.float64)


def contrast(regions: Superpixels, distance: Floats, background: Floats) -> Floats:
    """Return the difference of each region from the background around it, in units of `distance`.

    This is the paper's background weighted contrast, divided by one number for the image (the
    largest sum of weights), so that it is at most a weighted mean of differences.
    """
    weight = gaussian(cdist(regions.centres, regions.centres) / SPATIAL_SCALE) * background
    total = np.sum(distance * weight, axis=1, dtype=np.float64)
    return np.asarray(total / max(float(weight.sum(axis=1).max()), 1e-12))


def salience(
    regions: Superpixels, size: tuple[int, int], *, motion: Floats | None = None
) -> Floats:
    """Return the salience of each region, from 0 to 1; all zero where nothing is salient.

    Args:
        regions: Superpixels of the image.
        size: (width, height) of the image in pixels.
        motion: Evidence from 0 to 1 that a region moves on its own; None: an image.
    """
    distance = cdist(regions.colours, regions.colours)
    background = background_probability(regions, distance, scale=GEODESIC_SCALE)
    difference = contrast(regions, distance, background)
    foreground = _stretch(difference) if difference.max() >= MIN_VISIBLE else 0 * difference
    if motion is not None:
        foreground = foreground / 2 + motion
    sides = np.array(size) / max(size)
    from_centre = (regions.centres - sides / 2) / sides
    foreground = _stretch(foreground * gaussian(np.hypot(*from_centre.T) / CENTRE_SCALE))
    if not foreground.any():
        return foreground
    foreground[foreground < foreground.mean()] = 0
    return _stretch(_minimize_cost(regions, distance, foreground, background))


def _minimize_cost(
    regions: Superpixels, distance: Floats, foreground: Floats, background: Floats
) -> Floats:
    """Return the s that minimises Σ b s² + Σ f (s - 1)² + Σ w (s_i - s_j)², the paper's cost."""
    link = _links(regions, regions.border())
    weights = link * (gaussian(distance / SMOOTHING_SCALE) + SMOOTHING_FLOOR)
    # The derivative is zero: (Σ_j w_ij + f_i + b_i) s_i - Σ_j w_ij s_j = f_i for each region i.
    system = -weights
    np.fill_diagonal(system, weights.sum(axis=1) + foreground + background + 1e-9)
    return np.asarray(spsolve(csc_array(system), foreground))


def _links(regions: Superpixels, border: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which regions are linked (count × count): neighbours, and all regions at the border.

    Border regions are linked because the background may continue outside the image.
    """
    link = regions.adjacent() | (border[:, None] & border[None, :])
    np.fill_diagonal(link, val=False)
    return link


def _stretch(values: Floats) -> Floats:
    """Return the values scaled to the range 0 to 1; zeros if they are all equal."""
    low, high = values.min(), values.max()
    if high - low < 1e-9:
        return np.zeros_like(values)
    return np.asarray(np.round((values - low) / (high - low), DECIMALS))


def motion_evidence(regions: Superpixels, frame: Frame, neighbours: list[Frame]) -> Floats:
    """Return the evidence from 0 to 1 that each region moves independently of the camera.

    The camera's motion (a homography, exact for a plane or a rotating camera) is subtracted from
    the flow to each neighbouring frame. The smaller residual of the two counts, because a region
    that is hidden in one of them has no correct flow there. A residual may also be parallax: like
    background, parallax is connected to the image's border through regions that move alike, which
    `background_probability` finds with motions in place of colours.

    Args:
        regions: Superpixels of `frame`.
        frame: The image.
        neighbours: The frames before and after it, of the same size; at least one.
    """
    flows = [
        dense_flow(frame, neighbour, max_side=max(frame.shape[:2])) for neighbour in neighbours
    ]
    residuals = [flow - camera_motion(flow) for flow in flows]
    # mean x and y residuals of each region, for each neighbour: 2 or 4 × count
    vectors = np.stack([regions.mean(field[..., axis]) for field in residuals for axis in (0, 1)])
    lengths = np.stack([np.linalg.norm(field, axis=2) for field in residuals]).min(axis=0)
    speed = regions.mean(lengths)
    noise = NOISE_FACTOR * float(np.median(speed)) + NOISE_FLOOR
    moving = 1 - gaussian(speed / noise)
    fixed = background_probability(regions, cdist(vectors.T, vectors.T), scale=noise)
    return moving * (1 - fixed)


def camera_motion(flow: FlowField) -> FlowField:
    """Return the motion of the camera as a flow: the homography that most of the flow follows.

    It is zero if no homography fits.
    """
    height, width = flow.shape[:2]
    grid = pixel_grid((width, height))
    start = grid[::MOTION_STRIDE, ::MOTION_STRIDE].reshape(-1, 2)
    end = start + flow[::MOTION_STRIDE, ::MOTION_STRIDE].reshape(-1, 2)
    visible = np.all((end >= 0) & (end < (width, height)), axis=1)
    if np.count_nonzero(visible) < MIN_MOTION_POINTS:
        return np.zeros_like(flow)
    cv2.setRNGSeed(0)
    tolerance = MOTION_TOLERANCE
    homography: Any = cv2.findHomography(start[visible], end[visible], cv2.RANSAC, tolerance)[0]
    if homography is None or not np.isfinite(homography).all():
        return np.zeros_like(flow)
    moved = cv2.perspectiveTransform(grid.reshape(-1, 1, 2), homography).reshape(height, width, 2)
    return (moved - grid).astype(np.float32)


@dataclass(frozen=True, slots=True)
class SalientObject:
    """One connected salient part of an image."""

    prompt: ObjectPrompt
    """Prompt in image pixels: box, points on the object, and points in the box but not on it."""
    score: float
    """Mean salience, from 0 to 1."""


def salient_objects(field: Field, size: tuple[int, int]) -> list[SalientObject]:
    """Return the objects of a salience map, the one with the largest sum of salience first.

    Args:
        field: Salience from 0 to 1, height × width of a shrunk image.
        size: (width, height) in pixels of the image that prompts are for.
    """
    salient = otsu_mask(field).astype(np.uint8)
    opened = cv2.morphologyEx(salient, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    n_labels, labels = cv2.connectedComponents(opened, connectivity=8)
    parts = [labels == label for label in range(1, n_labels)]
    parts = [part for part in parts if part.mean() >= MIN_SHARE]
    weights = [float(field[part].sum(dtype=np.float64)) for part in parts]
    order = sorted(range(len(parts)), key=lambda index: -weights[index])
    return [
        SalientObject(prompt_for(parts[index], size), float(field[parts[index]].mean()))
        for index in order
        if weights[index] >= MIN_WEIGHT * max(weights)
    ]


def prompt_for(part: BoolArray, size: tuple[int, int]) -> ObjectPrompt:
    """Return the box around a part, points on it and points beside it.

    The part is a mask of a shrunk image; the prompt is in pixels of the image of (width, height).
    """
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    across, down = size[0] / part.shape[1], size[1] / part.shape[0]
    around = np.zeros_like(part)
    around[top:bottom, left:right] = ~part[top:bottom, left:right]
    return ObjectPrompt(
        box=Box(left * across, top * down, right * across, bottom * down),
        positive=tuple(Point(x * across, y * down) for x, y in inner_points(part)),
        negative=tuple(Point(x * across, y * down) for x, y in inner_points(around)),
    )


def inner_points(part: BoolArray) -> list[tuple[float, float]]:
    """Return the centres (x, y) of up to MAX_POINTS pixels deepest inside a part.

    Depth is the distance to the outside. A point excludes the others within twice its depth;
    points less than half as deep as the first are left out.
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
