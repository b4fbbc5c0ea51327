"""Sample data for pointing benchmarks: still scenes, each with a question and its true region."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.masks import BoolArray
from harness.world.encode import encode_png, scene_png
from harness.world.language import Question
from harness.world.raster import edges, visible_masks
from harness.world.scene import Scene, Split
from harness.world.shapes import World


@dataclass(frozen=True, slots=True)
class Pointed:
    """A scene, a question about it, and `region`: the visible pixels of its referents."""

    scene: Scene
    question: Question
    region: BoolArray

    @property
    def encoded(self) -> bytes:
        """The region as a PNG file: white on black."""
        return encode_png(self.region.astype(np.uint8) * 255)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """Edges (left, top, right, bottom) of the region in pixels, right and bottom exclusive."""
        return edges(self.region)

    def write_image(self, path: Path) -> None:
        """Write the scene as a PNG file; create its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(scene_png(self.scene, 0))


def pointed(world: World, split: Split) -> Iterator[Pointed]:
    """Yield the still scenes of a split whose question refers to something visible."""
    for example in world.examples_of("still", split):
        question = example.questions[0]
        region = np.asarray(visible_masks(example.scene)[list(question.referents)].any(0))
        if region.any():
            yield Pointed(example.scene, question, region)
