"""True graph of a frame, and its agreement with a predicted one: Eq. 5 and 6 of Video-STR.

Places are in metres in the camera's frame: x to the right, y up, z forward. Pure functions of
numbers; nothing here reads a response.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.models.video_str.grammar import Vector

Angle: TypeAlias = Literal["joint", "kabsch"]
"""Frame in which directions are compared: the common frame of both graphs, or after the rotation
that fits the predicted places best to the true ones (about their centres, no reflection)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The nearest instance of a category that is seen in a frame."""

    category: str
    """Category in lower case."""
    centre: Vector
    count: int = 1
    """Instances of the category in the frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameGraph:
    """Objects and their places in one frame of a video, in this frame's camera coordinates."""

    frame: int
    nodes: tuple[Node, ...]


def node_reward(
    predicted: Mapping[str, Vector], ground_truth: Sequence[Node], *, sigma: float = 1.0
) -> float:
    """R_n (Eq. 5): exp(-distance / sigma) of each category, weighted by its instances.

    From 0 to 1; a category that was not predicted adds nothing, one too many costs nothing.

    Args:
        predicted: Centres by category.
        ground_truth: The nodes of one frame.
        sigma: Metres at which a node is worth 1/e; the paper has 1.
    """
    total = sum(node.count for node in ground_truth)
    if not total:
        return 0.0
    worth = [
        node.count * math.exp(-math.dist(predicted[node.category], node.centre) / sigma)
        for node in ground_truth
        if node.category in predicted
    ]
    return math.fsum(worth) / total


def edge_reward(
    predicted: Mapping[str, Vector],
    ground_truth: Sequence[Node],
    *,
    literal: bool = False,
    angle: Angle = "joint",
    sigma: float = 1.0,
) -> float:
    """R_e (Eq. 6): agreement of distances and directions between pairs of nodes.

    A pair is worth (exp(-|d - d'| / sigma) + exp(-t)) / 2, where t is the angle between its true
    and its predicted direction, from 0 to pi; 0 if one of its nodes was not predicted. Two
    directions without length agree (t = 0), one without length is worth 0.

    Args:
        predicted: Centres by category.
        ground_truth: The nodes of one frame.
        literal: The double sum as it is printed, over ordered pairs and each node with itself:
            n² where all agree. Otherwise the mean over unordered pairs, from 0 to 1; 0 where there
            is no pair.
        angle: See `Angle`.
        sigma: Metres at which a wrong distance is worth 1/e; the paper has 1.
    """
    known = [node for node in ground_truth if node.category in predicted]
    true = np.array([node.centre for node in known]).reshape(-1, 3)
    output = np.array([predicted[node.category] for node in known]).reshape(-1, 3)
    if angle == "kabsch" and len(known) > 1:
        output = aligned(output, true)
    worth = math.fsum(
        _pair(true[i] - true[j], output[i] - output[j], sigma)
        for i, j in combinations(range(len(known)), 2)
    )
    if literal:
        return 2 * worth + len(known)
    pairs = math.comb(len(ground_truth), 2)
    return worth / pairs if pairs else 0.0


def _pair(true: NDArray[np.float64], predicted: NDArray[np.float64], sigma: float) -> float:
    lengths = float(np.linalg.norm(true)), float(np.linalg.norm(predicted))
    near = math.exp(-abs(lengths[0] - lengths[1]) / sigma)
    if 0.0 in lengths:
        return (near + float(lengths[0] == lengths[1])) / 2
    return (near + math.exp(-_angle(true / lengths[0], predicted / lengths[1]))) / 2


def _angle(edge: NDArray[np.float64], other_edge: NDArray[np.float64]) -> float:
    """Return the angle between two unit vectors, exact for small ones, unlike an arc cosine."""
    return 2 * math.atan2(
        float(np.linalg.norm(edge - other_edge)), float(np.linalg.norm(edge + other_edge))
    )


def aligned(predicted: NDArray[np.float64], true: NDArray[np.float64]) -> NDArray[np.float64]:
    """The predicted places, turned about their centre to fit the true ones best (Kabsch 1976)."""
    centred = predicted - predicted.mean(axis=0)
    # Far-off places must not drown the numbers of near ones in rounding.
    left, _, right = np.linalg.svd(
        _scale_places(centred).T @ _scale_places(true - true.mean(axis=0))
    )
    flip = np.diag([1.0, 1.0, float(np.sign(np.linalg.det(left @ right)))])
    return np.asarray(centred @ left @ flip @ right)


def _scale_places(places: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(places / max(float(np.abs(places).max()), 1e-300))
