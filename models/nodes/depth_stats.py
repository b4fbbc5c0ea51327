"""The node `depth_stats`: mean and standard deviation of depth over the pixels of each mask."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from harness.errors import ModelError
from harness.masks import BoolArray
from harness.media import Media
from harness.node import (
    DepthMaps,
    DepthStatistics,
    Floats,
    Kind,
    Moments,
    Node,
    NodeKind,
    Output,
    instances_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthStats(Node):
    """Averages depth maps over the mask of each instance in each described frame."""

    kind: ClassVar[NodeKind] = NodeKind(
        produces=Kind.STATISTICS,
        requires=frozenset({Kind.INSTANCES, Kind.DEPTH}),
        summary="mean and standard deviation of depth within each instance",
    )

    name = "depth_stats"

    def run(
        self, media: Media, indices: Sequence[int], inputs: Sequence[Output]
    ) -> DepthStatistics:
        """Average the last depth maps among the inputs over the masks.

        Raises:
            ModelError: there are no depth maps.
        """
        depths = [output for output in inputs if isinstance(output, DepthMaps)]
        if not depths:
            raise ModelError("depth_stats", expected="depth maps among its inputs", found="none")
        maps = depths[-1].maps
        return DepthStatistics(
            {
                instance.key: {
                    index: moments(maps[index], instance.track[index])
                    for index in indices
                    if index in maps
                }
                for instance in instances_of(inputs)
            },
            depths[-1].meaning,
        )


def depth_stats() -> DepthStats:
    """Mean and standard deviation of depth within each instance's mask; no weights."""
    return DepthStats()


def moments(depth: Floats, mask: BoolArray) -> Moments | None:
    """Return a map's mean and population standard deviation over a mask (height × width).

    Return None if the mask is empty. The sums use 64-bit floats.

    >>> moments(np.array([[1.0, 3.0]], np.float32), np.array([[True, True]]))
    Moments(mean=2.0, std=1.0)
    """
    values = depth[mask].astype(np.float64)
    if values.size == 0:
        return None
    return Moments(float(values.mean()), float(values.std()))
