"""Smooth the masks of a video over its frames: exponential weights in a sliding window."""

import numpy as np

from harness.masks import Track


def smoothed(track: Track, *, alpha: float, window: int = 0) -> Track:
    """Return a track whose mask at frame t is where Σ w_k m_{t-k} ≥ ½ Σ w_k, w_k = (1 - α)^k.

    Args:
        track: Masks (height × width), one for each frame, in the order of time.
        alpha: α in (0, 1]; 1 leaves the masks as they are.
        window: Number of frames that count, the current one included; 0: all before it.
    """
    smooth = Track(len(track), track.height, track.width)
    reach = window or len(track)  # in frames
    for index in range(len(track)):
        steps = range(min(reach, index + 1))
        weights = [(1 - alpha) ** step for step in steps]
        score = np.zeros((track.height, track.width))
        for step, weight in zip(steps, weights, strict=True):
            if weight > 1e-3:  # the smaller weights are about 0.1 % of their sum
                score += weight * track[index - step]
        smooth[index] = score >= sum(weights) / 2
    return smooth
