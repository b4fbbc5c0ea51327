"""A sample's answers drawn on its frames, above what the networks were shown."""

from collections.abc import Sequence

import numpy as np

from harness import overlay
from harness.leaderboards.images import draw
from harness.media import Frame
from harness.models.backends.shown_media import squashed
from harness.types import Answer, Call, Prediction, Query, Sample, Shown

FRAMES = 6  # of a video that are drawn


def draw_overlay(sample: Sample, prediction: Prediction) -> Frame:
    """Draw the ground truth above the prediction with its outline; of a video, some frames.

    Under them stands what the networks were shown, as large as they were shown it, once each.
    """
    media = sample.query.media[0]
    step = max(1, -(-len(media) // FRAMES))
    frames = range(0, len(media), step)
    ground_truth = sample.target.answer if sample.target else None
    truth = [(ground_truth, overlay.GROUND_TRUTH, True)]
    both = [
        (prediction.answer, overlay.PREDICTION, True),
        (ground_truth, overlay.GROUND_TRUTH, False),
    ]
    layers = [truth, both] if ground_truth else [both]
    rows = [_row(sample, frames, layer) for layer in layers]
    rows += _draw_frames(sample.query, prediction.calls)
    widest = max(row.shape[1] for row in rows)
    padded = [
        np.pad(row, ((0, 8), (0, widest - row.shape[1]), (0, 0)), constant_values=255)
        for row in rows
    ]
    return np.concatenate(padded)


def _row(
    sample: Sample, frames: Sequence[int], layers: list[tuple[Answer | None, overlay.Colour, bool]]
) -> Frame:
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


def _draw_frames(query: Query, calls: Sequence[Call]) -> list[Frame]:
    """Draw a row of frames for each of the query's media shown, as large as seen; equal ones once.

    Media of other queries, and altered ones, are not in the record and are left out.
    """
    rows = dict.fromkeys(shown for call in calls for shown in call.request.shown)
    return [
        overlay.side_by_side(
            [_as_seen(query.media[shown.medium].frame(frame), shown) for frame in shown.frames]
        )
        for shown in rows
        if isinstance(shown.medium, int)
    ]


def _as_seen(frame: Frame, shown: Shown) -> Frame:
    image: Frame = squashed(squashed(frame, shown.resize), shown.canvas)
    return np.ascontiguousarray(image)
