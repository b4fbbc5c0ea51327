"""The true graph of a frame, and R_n and R_e: its agreement with a predicted graph.

Eq. 5 and 6 of Video-STR, as pure functions of numbers. Places are in metres in the camera's frame:
x to the right, y up, z forward.
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
    """Return R_n (Eq. 5), from 0 to 1: mean of exp(-distance / sigma) over true categories.

    The mean is weighted by the number of instances. A category that was not predicted scores 0; a
    predicted category that is not true is ignored.

    Args:
        predicted: Centres by category.
        ground_truth: The nodes of one frame.
        sigma: Distance in metres at which a node scores 1/e; the paper has 1.
    """
    total = sum(node.count for node in ground_truth)
    if not total:
        return 0.0
    scores = [
        node.count * math.exp(-math.dist(predicted[node.category], node.centre) / sigma)
        for node in ground_truth
        if node.category in predicted
    ]
    return math.fsum(scores) / total


def edge_reward(
    predicted: Mapping[str, Vector],
    ground_truth: Sequence[Node],
    *,
    literal: bool = False,
    angle: Angle = "joint",
    sigma: float = 1.0,
) -> float:
    """Return R_e (Eq. 6): agreement of distances and directions between pairs of nodes.

    A pair scores (exp(-|d - d'| / sigma) + exp(-t)) / 2, where d and d' are its true and predicted
    distance, and t the angle between its true and predicted direction, from 0 to pi. It scores 0 if
    one of its nodes was not predicted. If both distances are 0, t is 0; if only one is, the term of
    the angle is 0.

    Args:
        predicted: Centres by category.
        ground_truth: The nodes of one frame.
        literal: The double sum as the paper prints it, over ordered pairs and each node with
            itself: n² if all agree. Else the mean over unordered pairs, from 0 to 1; 0 if there is
            no pair.
        angle: See `Angle`.
        sigma: Error of a distance, in metres, that scores 1/e; the paper has 1.
    """
    common = [node for node in ground_truth if node.category in predicted]
    true = np.array([node.centre for node in common]).reshape(-1, 3)
    output = np.array([predicted[node.category] for node in common]).reshape(-1, 3)
    if angle == "kabsch" and len(common) > 1:
        output = aligned(output, true)
    total = math.fsum(
        _pair_score(true[i] - true[j], output[i] - output[j], sigma)
        for i, j in combinations(range(len(common)), 2)
    )
    if literal:
        return 2 * total + len(common)
    pairs = math.comb(len(ground_truth), 2)
    return total / pairs if pairs else 0.0


def _pair_score(true: NDArray[np.float64], predicted: NDArray[np.float64], sigma: float) -> float:
    """Return the score of a pair, from its true and predicted difference of places (3 each)."""
    length, predicted_length = float(np.linalg.norm(true)), float(np.linalg.norm(predicted))
    distance_term = math.exp(-abs(length - predicted_length) / sigma)
    if 0.0 in (length, predicted_length):
        angle_term = float(length == predicted_length)
    else:
        angle_term = math.exp(-_angle(true / length, predicted / predicted_length))
    return (distance_term + angle_term) / 2


def _angle(edge: NDArray[np.float64], other_edge: NDArray[np.float64]) -> float:
    """Return the angle between two unit vectors, accurate for small angles, unlike arc cosine."""
    return 2 * math.atan2(
        float(np.linalg.norm(edge - other_edge)), float(np.linalg.norm(edge + other_edge))
    )


def aligned(predicted: NDArray[np.float64], true: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return predicted places (n × 3), centred and rotated to fit the true ones (Kabsch 1976)."""
    centred = predicted - predicted.mean(axis=0)
    # Scaled, because numbers of far-off places would overflow or lose digits.
    left, _, right = np.linalg.svd(
        _scale_positions(centred).T @ _scale_positions(true - true.mean(axis=0))
    )
    # Without `flip` the best orthogonal matrix may be a reflection.
    flip = np.diag([1.0, 1.0, float(np.sign(np.linalg.det(left @ right)))])
    return np.asarray(centred @ left @ flip @ right)


def _scale_positions(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide places by their largest coordinate; 0 stays 0."""
    return np.asarray(positions / max(float(np.abs(positions).max()), 1e-300))
