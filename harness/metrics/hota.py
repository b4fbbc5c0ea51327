"""HOTA of mask tracks: how well objects are detected and kept apart over time.

`tracked` counts one video and phrase; `hota`, `det_a` and `ass_a` turn the counts of all videos
into numbers from 0 to 1. Equal to `HOTA` of TrackEval in the copy of facebookresearch/sam3 (commit
99d02f2, sam3/eval/hota_eval_toolkit), which `VideoPhraseHotaEvaluator` runs for pHOTA. An object is
present in a frame if its mask has a pixel there; a detection is an object in a frame.
"""

from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from harness.masks import Rle
from harness.metrics.cgf1 import track_ious

ALPHAS = np.arange(0.05, 0.99, 0.05)  # thresholds of IoU
EPSILON = np.finfo(float).eps
Array = NDArray[np.float64]


class Tracked(TypedDict):
    """Counts of one video and phrase, each at all of `ALPHAS`."""

    hits: list[float]
    """Matched detections."""
    missed: list[float]
    """True detections without a match."""
    wrong: list[float]
    """Predicted detections without a match."""
    association: list[float]
    """AssA, the mean over hits of: frames where the two tracks match over frames of either."""


def tracked(true: Sequence[Sequence[Rle]], predicted: Sequence[Sequence[Rle]]) -> Tracked:
    """Count hits, misses and association of one video, matching objects frame by frame.

    A frame's matching has the largest sum of IoU times alignment, where the alignment of two tracks
    is a soft IoU over the whole video, 0 to 1.

    Args:
        true: Objects, each with one mask a frame.
        predicted: Predicted objects, with as many frames of the same size.
    """
    true_areas, predicted_areas = (
        np.array([[mask.area for mask in track] for track in tracks], dtype=float)
        for tracks in (true, predicted)
    )
    hits = np.zeros(len(ALPHAS))
    if not true_areas.sum() or not predicted_areas.sum():
        missed, wrong = (
            np.full(len(ALPHAS), float((areas > 0).sum()))
            for areas in (true_areas, predicted_areas)
        )
        return _as_lists(hits, missed, wrong, hits)
    # For each frame the true objects (rows) and predicted ones (columns) in it, and their IoUs.
    rows = [np.flatnonzero(areas) for areas in true_areas.T]
    columns = [np.flatnonzero(areas) for areas in predicted_areas.T]
    ious = []
    for frame, (row, column) in enumerate(zip(rows, columns, strict=True)):
        true_masks = [[true[int(index)][frame]] for index in row]
        predicted_masks = [[predicted[int(index)][frame]] for index in column]
        ious.append(track_ious(true_masks, predicted_masks))
    # Alignment: the tracks' shared frames, weighted by IoU, over the frames of either.
    together = np.zeros((len(true), len(predicted)))
    for row, column, iou in zip(rows, columns, ious, strict=True):
        either = iou.sum(0)[None] + iou.sum(1)[:, None] - iou
        share = np.divide(iou, either, out=np.zeros_like(iou), where=either > EPSILON)
        together[np.ix_(row, column)] += share
    lengths = (true_areas > 0).sum(1)[:, None] + (predicted_areas > 0).sum(1)[None].astype(float)
    aligned = np.divide(
        together, lengths - together, out=np.zeros_like(together), where=lengths > together
    )
    matches = np.zeros((len(ALPHAS), *together.shape))  # numbers of frames where a pair matches
    for row, column, iou in zip(rows, columns, ious, strict=True):
        first, second = linear_sum_assignment(-aligned[np.ix_(row, column)] * iou)
        enough = iou[first, second] >= ALPHAS[:, None] - EPSILON
        for alpha, is_hit in enumerate(enough):
            matches[alpha, row[first[is_hit]], column[second[is_hit]]] += 1
    hits = matches.sum((1, 2))
    common = matches * (matches / np.maximum(1, lengths - matches))
    return _as_lists(
        hits,
        (true_areas > 0).sum() - hits,
        (predicted_areas > 0).sum() - hits,
        np.array([shares.sum() for shares in common]) / np.maximum(1, hits),
    )


def _as_lists(hits: Array, missed: Array, wrong: Array, association: Array) -> Tracked:
    return Tracked(
        hits=hits.tolist(),
        missed=missed.tolist(),
        wrong=wrong.tolist(),
        association=association.tolist(),
    )


def detection(videos: Sequence[Any]) -> Array:
    """Return DetA at each of `ALPHAS`: hits / (hits + missed + wrong), each summed over videos."""
    hits, missed, wrong = (
        np.sum([video[name] for video in videos], axis=0) for name in ("hits", "missed", "wrong")
    )
    return np.asarray(hits / np.maximum(1, hits + missed + wrong))


def association(videos: Sequence[Any]) -> Array:
    """Return AssA at each of `ALPHAS`: the mean over videos, weighted by their hits."""
    hits = np.array([video["hits"] for video in videos])
    weighted = (hits * np.array([video["association"] for video in videos])).sum(0)
    return np.asarray(weighted / np.maximum(1, hits.sum(0)))


def hota(videos: Sequence[Any]) -> float:
    """Return HOTA: √(DetA × AssA), mean over `ALPHAS`."""
    return float(np.mean(np.sqrt(detection(videos) * association(videos))))


def det_a(videos: Sequence[Any]) -> float:
    """Return DetA, mean over `ALPHAS`."""
    return float(np.mean(detection(videos)))


def ass_a(videos: Sequence[Any]) -> float:
    """Return AssA, mean over `ALPHAS`."""
    return float(np.mean(association(videos)))
