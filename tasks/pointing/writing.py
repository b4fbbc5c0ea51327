"""Still scenes with the region of a question, as the writers of pointing benchmarks need them."""

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
    """A scene, a question about it, and the visible pixels of what it refers to."""

    scene: Scene
    question: Question
    region: BoolArray

    @property
    def encoded(self) -> bytes:
        """The region as a file: a white image on black."""
        return encode_png(self.region.astype(np.uint8) * 255)

    @property
    def box(self) -> tuple[int, int, int, int]:
        """The region's first column and row, and those behind its last."""
        return edges(self.region)

    def write_image(self, path: Path) -> None:
        """Write the scene as a PNG file; its folder is made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(scene_png(self.scene, 0))


def pointed(world: World, split: Split) -> Iterator[Pointed]:
    """The still scenes of a split whose question refers to something that is visible."""
    for example in world.examples_of("still", split):
        question = example.questions[0]
        region = np.asarray(visible_masks(example.scene)[list(question.referents)].any(0))
        if region.any():
            yield Pointed(example.scene, question, region)
