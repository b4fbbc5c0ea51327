"""The image of `harness explain --image`: a sample's answers drawn on its frames.

Below them are the frames that the networks were shown, in the size in which they were shown.
"""

from collections.abc import Sequence

import numpy as np

from harness import overlay
from harness.leaderboards.images import draw
from harness.media import Frame
from harness.models.backends.shown_media import squashed
from harness.types import Answer, Call, Prediction, Query, Sample, Shown

MAX_FRAMES = 6
"""Largest number of frames of a video that are drawn."""


def draw_overlay(sample: Sample, prediction: Prediction) -> Frame:
    """Draw rows of frames as one image, (height, width, 3) uint8.

    The rows are the ground truth, if known; the prediction with the ground truth's outline; and
    the frames that the networks were shown. Frames of a video are evenly spaced.
    """
    media = sample.query.media[0]
    step = max(1, -(-len(media) // MAX_FRAMES))  # rounded up
    frames = range(0, len(media), step)
    ground_truth = sample.target.answer if sample.target else None
    truth_row = [(ground_truth, overlay.GROUND_TRUTH, True)]
    prediction_row = [
        (prediction.answer, overlay.PREDICTION, True),
        (ground_truth, overlay.GROUND_TRUTH, False),
    ]
    layers_of_rows = [truth_row, prediction_row] if ground_truth else [prediction_row]
    rows = [_row(sample, frames, layers) for layers in layers_of_rows]
    rows += _rows_shown(sample.query, prediction.calls)
    widest = max(row.shape[1] for row in rows)
    padded = [
        np.pad(row, ((0, 8), (0, widest - row.shape[1]), (0, 0)), constant_values=255)
        for row in rows
    ]
    return np.concatenate(padded)


def _row(
    sample: Sample, frames: Sequence[int], layers: list[tuple[Answer | None, overlay.Colour, bool]]
) -> Frame:
    """Draw frames side by side, each with layers (answer, colour, True: filled, False: outline)."""
    media = sample.query.media[0]
    images = []
    for index in frames:
        image = media.frame(index)
        for answer, colour, filled in layers:
            if answer is not None:
                image = draw(
                    image, answer, index=index, size=media.size, colour=colour, filled=filled
                )
        images.append(image)
    return overlay.side_by_side(images)


def _rows_shown(query: Query, calls: Sequence[Call]) -> list[Frame]:
    """Return a row of frames for each medium of the query that a call showed; equal rows once.

    Other media, such as crops that a tool made, have no row: their pixels are not recorded.
    """
    rows = dict.fromkeys(display for call in calls for display in call.request.shown)
    return [
        overlay.side_by_side(
            [
                _as_seen(query.media[display.medium].frame(frame), display)
                for frame in display.frames
            ]
        )
        for display in rows
        if isinstance(display.medium, int)
    ]


def _as_seen(frame: Frame, display: Shown) -> Frame:
    """Return the frame in the size that the network saw."""
    image: Frame = squashed(squashed(frame, display.resize), display.canvas)
    return np.ascontiguousarray(image)
