"""Saliency of superpixels from the probability that each is not background.

The method is robust background detection (Zhu, Liang, Wei, Sun: "Saliency Optimization from Robust
Background Detection", CVPR 2014). A region that is connected to a long stretch of the image's
border through regions like it is background; what differs from the background around it is
foreground; a least-squares problem on the graph of neighbours reconciles the two.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.sparse.csgraph import dijkstra
from scipy.sparse.linalg import spsolve
from scipy.spatial.distance import cdist

from harness.models.saliency.superpixels import Superpixels

Floats = NDArray[np.float64]

GEODESIC_SCALE = 7.0  # Lab; the paper's σ_clr, for which 5 to 10 is usual
SPATIAL_SCALE = 0.25  # longest sides of the image; the paper's σ_spa
SMOOTHING_SCALE = 10.0  # Lab; how alike neighbours must be to be made equal
SMOOTHING_FLOOR = 0.1  # the paper's μ: neighbours are a little alike, whatever their colours
CENTRE_SCALE = 0.3  # sides of the image; photographers put their subject near the middle
VISIBLE = 2.3  # Lab; the least difference that people see, below which nothing stands out
TOUCHING = 1e-4  # Lab; a step between regions of one colour, not zero, which is "no step" to scipy
DECIMALS = 6  # results are rounded, so that the order of additions cannot move a threshold


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
