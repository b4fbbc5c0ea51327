"""Regions of a frame that move relative to the camera's motion."""

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from harness.media import Frame
from harness.models.propagators.flow import Field, dense_flow, pixel_grid
from harness.models.saliency.background import background_probability, gaussian
from harness.models.saliency.superpixels import Superpixels

Floats = NDArray[np.float64]

STRIDE = 8  # pixels between the places at which the camera's motion is measured
MIN_PLACES = 16
TOLERANCE = 2.0  # pixels by which a place may miss the camera's motion and still belong to it
NOISE_FLOOR = 1.0  # pixels; motion that flow cannot tell from nothing
NOISE_FACTOR = 3.0  # of the median residual, as above


def motion_evidence(regions: Superpixels, frame: Frame, neighbours: list[Frame]) -> Floats:
    """Evidence from 0 to 1 that each region moves against the camera and against the border.

    Flow to each neighbouring frame loses the camera's part (a homography, as for a plane or a
    turning camera); what is left is motion of its own or parallax. The lesser of the neighbours
    counts, because what is covered in one has no true flow there. Parallax is told apart as
    background is told by colour: it is connected to the image's border through regions that
    move alike (background.py, with motions in the place of colours).

    Args:
        regions: superpixels of `frame`.
        frame: the image in which evidence is wanted.
        neighbours: frames before and after it, of the same size; at least one.
    """
    flows = [dense_flow(frame, other, max_side=max(frame.shape[:2])) for other in neighbours]
    residual = [flow - camera_motion(flow) for flow in flows]
    vectors = np.stack([regions.mean(field[..., axis]) for field in residual for axis in (0, 1)])
    lengths = np.stack([np.linalg.norm(field, axis=2) for field in residual]).min(axis=0)
    speed = regions.mean(lengths)
    noise = NOISE_FACTOR * float(np.median(speed)) + NOISE_FLOOR
    moving = 1 - gaussian(speed / noise)
    fixed = background_probability(regions, cdist(vectors.T, vectors.T), scale=noise)
    return moving * (1 - fixed)


def camera_motion(flow: Field) -> Field:
    """Return the homography that most of a flow follows, as a flow; zero where there is none."""
    height, width = flow.shape[:2]
    grid = pixel_grid((width, height))
    start = grid[::STRIDE, ::STRIDE].reshape(-1, 2)
    end = start + flow[::STRIDE, ::STRIDE].reshape(-1, 2)
    seen = np.all((end >= 0) & (end < (width, height)), axis=1)
    if np.count_nonzero(seen) < MIN_PLACES:
        return np.zeros_like(flow)
    cv2.setRNGSeed(0)
    found: Any = cv2.findHomography(start[seen], end[seen], cv2.RANSAC, TOLERANCE)[0]
    if found is None or not np.isfinite(found).all():
        return np.zeros_like(flow)
    moved = cv2.perspectiveTransform(grid.reshape(-1, 1, 2), found).reshape(height, width, 2)
    return (moved - grid).astype(np.float32)
