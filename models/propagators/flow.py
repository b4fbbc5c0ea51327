"""The propagator `flow`: warps masks along dense optical flow; it needs no weights.

The flow is DIS (Kroeger, Timofte, Dai, Van Gool: "Fast Optical Flow using Dense Inverse Search",
ECCV 2016) as OpenCV computes it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.models.factory import at_least
from harness.models.propagators.walks import Walker

Field = NDArray[np.float32]
"""height × width × 2: (x, y) of each pixel, in pixels."""

SMALLEST_SIDE = 16  # pixels; DIS uses patches of 8 pixels at half scale
OUTSIDE = -1e6  # a coordinate outside every image


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow(Walker):
    """Propagates masks from frame to frame, forward and backward, by optical flow.

    Each direction keeps a map from every pixel of the current frame to its position in the start
    frame, and extends it by the flow to the previous frame. Each mask is read once through this
    map, so that rounding errors do not accumulate, motions below half a pixel per frame are kept,
    and further objects cost almost nothing. Pixels that enter the image belong to no object.
    Background that an object uncovers has no correct flow, so masks may smear over it. Memory: two
    frames, one map and one mask, and the run-lengths of the result.
    """

    max_side: int = 480
    """Flow is computed with the longest side at most this many pixels."""

    name = "flow"

    def _walk(
        self, video: Media, order: range, masks: Sequence[BoolArray]
    ) -> Iterator[tuple[int, Iterable[BoolArray]]]:
        """Warp the masks by `origin`: the position of each pixel in the first frame of `order`."""
        grid = pixel_grid(video.size)
        origin, before = grid, video.frame(order[0])
        for index in order[1:]:
            frame = video.frame(index)
            source = grid + dense_flow(frame, before, max_side=self.max_side)
            origin, before = _sample(origin, source), frame
            yield index, map(partial(_warp_mask, origin=origin), masks)


def flow(*, max_side: int = 480) -> Flow:
    """DIS optical flow, forward and backward; no weights."""
    at_least("flow", SMALLEST_SIDE, max_side=max_side)
    return Flow(max_side=max_side)


def dense_flow(source: Frame, target: Frame, *, max_side: int) -> Field:
    """Return the displacement of each pixel from `source` to `target`, in pixels of `source`.

    It is zero if the shorter side of the shrunk images has less than SMALLEST_SIDE pixels.

    Args:
        source: RGB image.
        target: RGB image of the same size.
        max_side: Longest side of the shrunk images; the flow is resized back to full size.
    """
    height, width = source.shape[:2]
    scale = min(1.0, max_side / max(height, width))
    small = (max(1, round(width * scale)), max(1, round(height * scale)))
    if min(small) < SMALLEST_SIDE:
        return np.zeros((height, width, 2), dtype=np.float32)
    grey = [
        cv2.cvtColor(cv2.resize(frame, small, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY)
        for frame in (source, target)
    ]
    method = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    displacement = method.calc(grey[0], grey[1], np.zeros((small[1], small[0], 2), np.float32))
    grown = cv2.resize(displacement, (width, height), interpolation=cv2.INTER_LINEAR)
    scales = np.array([width / small[0], height / small[1]], dtype=np.float32)
    return np.asarray(grown * scales, dtype=np.float32)


def pixel_grid(size: tuple[int, int]) -> Field:
    """Return the (x, y) of every pixel of an image of (width, height)."""
    x, y = np.meshgrid(np.arange(size[0]), np.arange(size[1]))
    return np.stack([x, y], axis=2).astype(np.float32)


def _sample(values: NDArray[np.float32], points: Field) -> NDArray[np.float32]:
    """Sample an array at `points` by bilinear interpolation; OUTSIDE beyond the image."""
    x, y = np.ascontiguousarray(points[..., 0]), np.ascontiguousarray(points[..., 1])
    beyond = (OUTSIDE, OUTSIDE)
    sampled = cv2.remap(
        values, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=beyond
    )
    return sampled.astype(np.float32)


def _warp_mask(mask: BoolArray, origin: Field) -> BoolArray:
    """Warp a mask by a map of origins; a pixel is set if its sample is at least 0.5."""
    return _sample(mask.astype(np.float32), origin) >= np.float32(0.5)
