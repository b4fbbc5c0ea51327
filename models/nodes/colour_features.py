"""The node `colour_features`: feature vectors from colour histograms and moments, no network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np

from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.models.nodes.instances import features_of
from harness.node import Features, Floats, Kind, Node, NodeKind, Output

LEVELS = (4, 4, 4)
"""Bins of the histogram along CIELAB's lightness and its two colour axes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColourFeatures(Node):
    """Gives unit vectors of 71 numbers: 64 of colour (histogram), 7 of form (Hu's moments)."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.FEATURES,
        accepts=frozenset({Kind.INSTANCES}),
        summary="vectors of colour and form",
    )

    name = "colour_features"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Features:
        """Return the vectors of instances, each in the frame where it is largest, and of frames."""
        return features_of(
            media, indices, inputs, lambda index, mask: vector(media.frame(index), mask)
        )


def colour_features() -> ColourFeatures:
    """Histogram of colour and moments of form of instances and frames; no weights."""
    return ColourFeatures()


def vector(image: Frame, mask: BoolArray) -> Floats:
    """Return the unit vector (71 numbers) of a mask's pixels; there must be at least one pixel."""
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)[mask]
    colours, _ = np.histogramdd(lab, LEVELS, range=((0, 100), (-100, 100), (-100, 100)))
    moments = cv2.HuMoments(cv2.moments(mask.astype(np.uint8), binaryImage=True)).ravel()
    # Moments differ by orders of magnitude: compare their logarithms, scaled to about 1.
    form = -np.sign(moments) * np.log10(np.maximum(np.abs(moments), 1e-12)) / 12
    features = np.concatenate((np.sqrt(colours.ravel() / len(lab)), form / np.sqrt(7)))
    return np.asarray(features / np.linalg.norm(features), dtype=np.float32)
