"""The graph of a clip: the place of each category's nearest object, frame by frame.

A line of `graphs.jsonl`, whose `id` is that of the question's sample (the trainer of Video-STR
reads such files as well, `graphs=FILE`):

    {"id": "kitti/0001/0/relative_distance-3", "graphs": [{"frame": 0, "nodes": [
       {"category": "car", "centre": [1.25, -0.4, 12.3], "count": 2},
       {"category": "cyclist", "centre": [-3.1, 0.2, 20.0], "count": 1}]}]}

`frame` counts the sample's own frames from 0. Centres are metres in that frame's camera: x right,
y up, z forward. `count` is the number of clear instances, of which the nearest is the node. Only
frames with two categories or more are there; TAO has no depth, and so no graphs.
"""

import math
from collections.abc import Sequence
from typing import TypedDict

from stv_builder.clips import Clip, ObjectView
from stv_builder.filters import ORIGIN
from stv_builder.geometry import Place

MIN_NODES = 2  # nodes of a frame's graph
DECIMALS = 3  # of a metre


class Node(TypedDict):
    """Things of one category that a frame shows: the nearest one's centre, and their number."""

    category: str
    centre: list[float]
    count: int


class GraphFrame(TypedDict):
    """A frame of a graph."""

    frame: int
    nodes: list[Node]


def graphs_of(clip: Clip) -> list[GraphFrame]:
    """The frames of a clip's graph; none if no frame shows two clear categories with depth."""
    frames: list[GraphFrame] = []
    for number, sights in enumerate(clip.sights):
        nodes = _nodes(sights)
        if len(nodes) >= MIN_NODES:
            frames.append({"frame": number, "nodes": nodes})
    return frames


def _nodes(sights: tuple[ObjectView, ...]) -> list[Node]:
    """The nodes of a frame, in alphabetical order."""
    centres: dict[str, list[Place]] = {}
    for sight in sights:
        if sight.clear and sight.centre is not None:
            centres.setdefault(sight.category, []).append(sight.centre)
    return [
        {
            "category": name,
            "centre": [round(one, DECIMALS) + 0.0 for one in _nearest_place(centres[name])],
            "count": len(centres[name]),
        }
        for name in sorted(centres)
    ]


def _nearest_place(places: list[Place]) -> Place:
    return min(places, key=lambda spot: math.dist(spot, ORIGIN))


def categories_of(frames: Sequence[GraphFrame]) -> list[str]:
    """Return all categories of a graph in alphabetical order, for `{object_list}` in prompts."""
    return sorted({node["category"] for frame in frames for node in frame["nodes"]})
