"""A response in a part of an image names what it named in the whole."""

import json

import numpy as np
import pytest

from harness.models.test_time.places import Part, parts, pieces
from harness.models.visionreasoner.scoring import parse_objects

CANVAS = (168, 168)
PARTS = (
    Part(),
    Part(mirrored=True),
    Part(left=0.1, top=0.2, right=0.9, bottom=0.8),
    Part(left=0.15, top=0.0, right=0.95, bottom=0.7, mirrored=True),
)


def response(*objects):
    return f"<think>the blue one</think><answer>{json.dumps(objects)}</answer>"


def painted(box, size):
    """A grey frame with a white box, whose edges are in pixels of the canvas."""
    frame = np.full((size[1], size[0], 3), 60, np.uint8)
    x, y = size[0] / CANVAS[0], size[1] / CANVAS[1]
    frame[round(box[1] * y) : round(box[3] * y), round(box[0] * x) : round(box[2] * x)] = 255
    return frame


def seen_box(frame):
    """Edges of the white box, in the canvas."""
    ys, xs = np.nonzero(frame[..., 0] > 157)
    edges = np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1])
    return edges * np.tile([CANVAS[0] / frame.shape[1], CANVAS[1] / frame.shape[0]], 2)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("size", [(168, 168), (400, 240)])
def test_a_box_is_where_its_pixels_are(part, size):
    box = [42, 56, 98, 84]
    (texts,) = [pieces(response({"bbox_2d": box, "point_2d": [50, 60]}), part, CANVAS)]
    boxes, points = parse_objects("".join(texts))
    assert np.abs(boxes[0] - seen_box(part.apply(painted(box, size)))).max() <= 1.5
    assert boxes[0][0] <= points[0][0] <= boxes[0][2]
    # The point is as far from the box's left edge as it was, counted from the right in a mirror.
    share = (points[0][0] - boxes[0][0]) / (boxes[0][2] - boxes[0][0])
    assert share == pytest.approx(6 / 7 if part.mirrored else 1 / 7, abs=0.03)


def test_only_coordinates_change_and_keep_their_decimals():
    objects = '[{"bbox_2d": [0.10,0.2, 0.3,0.4], "point_2d": [0.2,0.3], "n": 7}]'
    said = f"<think>2 of 3</think><answer>{objects}</answer>"
    texts = pieces(said, Part(mirrored=True), (1, 1))
    assert texts[1::2] == ["0.70", "0.2", "0.9", "0.4", "0.8", "0.3"]
    assert texts[::2] == pieces(said, Part(), (1, 1))[::2]
    assert "".join(pieces(said, Part(), (1, 1))) == said
    assert pieces("no answer", PARTS[2], CANVAS) == ["no answer"]


def test_parts_hold_the_box_and_are_mirrored_only_where_they_may_be():
    around = (0.2, 0.5, 0.4, 1.0)
    drawn = parts(200, np.random.default_rng(0), around=around, mirror=True)
    for one in drawn:
        assert one.left <= 0.2 and one.top <= 0.5 and one.right >= 0.4 and one.bottom == 1.0
        assert one.right - one.left >= 0.5
    assert 60 < sum(one.mirrored for one in drawn) < 140
    assert not any(
        one.mirrored for one in parts(50, np.random.default_rng(0), around=around, mirror=False)
    )
