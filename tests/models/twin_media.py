"""Media and nodes of digital twins in tests."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from harness import media, plugins
from harness.errors import (
    Unavailable,
)
from harness.masks import Track
from harness.media import Media
from harness.models.dt_r1.catalog import catalog
from harness.node import (
    DepthMaps,
    Instance,
    Instances,
    Kind,
    Node,
    NodeKind,
    Output,
    Semantics,
)
from harness.spec import parse
from harness.world.families import draw_scene
from harness.world.raster import render


def scene_media(family: str = "still", index: int = 0) -> tuple[Media, Any]:
    scene = draw_scene(7, family=family, split="val", index=index)
    frames = [render(scene, frame) for frame in range(scene.frames)]
    times = [frame / 2 for frame in range(scene.frames)]
    return media.pixels(frames, times=times, is_video=len(frames) > 1, id=scene.id), scene


KNOWN = catalog()


EXAMPLE_STATS = '{"SAM2": [], "DepthAnything2": [], "DepthStats": ["SAM2", "DepthAnything2"]}'


def toy_video() -> Media:
    frames = [np.full((6, 8, 3), shade, np.uint8) for shade in (10, 200)]
    return media.pixels(frames, times=(0.0, 1.0), is_video=True, id="toy")


@dataclass(frozen=True, kw_only=True)
class Toy(Node):
    """Masks of a rectangle, or whatever a test asks for."""

    kind: ClassVar[NodeKind] = NodeKind(produces=Kind.INSTANCES, summary="toy")
    state: ClassVar[dict[str, Any]] = {}
    lock: ClassVar[threading.Lock] = threading.Lock()

    @property
    def name(self) -> str:
        return "toy"

    @classmethod
    def reset(cls) -> dict[str, Any]:
        cls.state.clear()
        cls.state.update(runs=0)
        return cls.state

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Any:
        with self.lock:
            self.state["runs"] += 1
        what = self.state.get("masks")
        if what == "raise":
            raise ValueError("no idea")
        if what == "exit":
            raise SystemExit(0)
        if what == "memory":
            raise MemoryError
        if what == "server":
            raise Unavailable("server", expected="an answer", found="none")
        if what == "hang":
            self.state["released"].wait(30)
        if what == "wrong":
            return Semantics("not masks")
        if what == "small":
            return Instances((Instance(Track(len(media), 2, 2)),))
        time.sleep(self.state.get("pause", 0))
        track = Track(len(media), media.size[1], media.size[0])
        mask = np.zeros((media.size[1], media.size[0]), dtype=np.bool_)
        mask[1:4, 2:6] = True
        for index in range(1 if what == "one frame" else len(media)):
            track[index] = mask
        return Instances((Instance(track, "thing"),))


@dataclass(frozen=True, kw_only=True)
class ToyDepth(Node):
    kind: ClassVar[NodeKind] = NodeKind(produces=Kind.DEPTH, summary="toy")

    @property
    def name(self) -> str:
        return "toy_depth"

    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> DepthMaps:
        time.sleep(Toy.state.get("pause", 0))
        flat = np.full((media.size[1], media.size[0]), 0.5, np.float32)
        return DepthMaps(dict.fromkeys(indices, flat), "toy")


def toy() -> Toy:
    return Toy()


def toy_depth() -> ToyDepth:
    return ToyDepth()


class toy_nodes:  # noqa: N801 - used as a function
    """Installs the toys as nodes, and gives the assignment that has them."""

    def __init__(self) -> None:
        self.patch = pytest.MonkeyPatch()

    def __enter__(self) -> Any:
        real = plugins.load

        def load(kind: Any, name: str) -> Any:
            return {"toy": toy, "toy_depth": toy_depth}.get(name) or real(kind, name)

        self.patch.setattr(plugins, "load", load)
        return parse("local(SAM2=toy,DepthAnything2=toy_depth)")

    def __exit__(self, *_: object) -> None:
        self.patch.undo()
