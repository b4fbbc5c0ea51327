"""What readers hand on: a stretch of video, or one picture, and what is seen in each frame."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from harness.tasks.training.stv.geometry import Place
from harness.types import Box, Box3D

Source: TypeAlias = Literal["tao", "kitti", "scannet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One object in one frame."""

    track: str
    """Names the object within its clip."""
    category: str
    """What a reader would call it; empty where the source's word for it says too little."""
    box: Box
    """Pixels of the picture, not cut at its borders."""
    visible: float
    """The share of the object that can be seen, from 0 to 1, as the reader estimates it."""
    centre: Place | None = None
    """In the frame's camera: x right, y up, z forward, metres. None where there is no depth."""
    extent: Box3D | None = None
    """The axis-aligned box around it in the frame's camera, in the same axes."""
    ground: Place | None = None
    """Seen from above, x to the right and y ahead (z is not used), in one frame for the picture."""
    world: Place | None = None
    """In one frame for all of the clip, metres: what displacement is measured in."""
    sides: tuple[float, float, float] | None = None
    """Its own length, width and height in metres, in any order."""
    clear: bool = True
    """Whether it passed the filters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """A few frames with all their annotated objects."""

    id: str
    source: Source
    pictures: tuple[str, ...]
    """Paths below the data root, one a frame."""
    rate: float
    """Frames a second."""
    size: tuple[int, int]
    """(width, height) in pixels."""
    sights: tuple[tuple[Sight, ...], ...]
    """One tuple a frame."""
    uncounted: tuple[frozenset[str], ...] = ()
    """Of each frame, categories of which it may show more than is annotated; empty if all is."""
    unnamed: tuple[frozenset[str], ...] = ()
    """Likewise, where what is not annotated may be as clear as what is, so that "the car" says too
    little."""
    room: float | None = None
    """Square metres of the room, indoors."""
    still: bool = False
    """Whether nothing moves but the camera."""

    @property
    def is_video(self) -> bool:
        """Whether it has more than one frame."""
        return len(self.pictures) > 1

    def seconds(self, frame: int) -> float:
        """When a frame is shown, from the clip's beginning."""
        return frame / self.rate

    @property
    def uncounted_ever(self) -> frozenset[str]:
        """Categories of which some frame may show more than is annotated."""
        return frozenset[str]().union(*self.uncounted)

    def unnamed_at(self, frame: int) -> frozenset[str]:
        """Categories of which a frame may show another one that is as clear."""
        return self.unnamed[frame] if self.unnamed else frozenset()

    @property
    def unnamed_ever(self) -> frozenset[str]:
        """Categories of which some frame may show another one that is as clear."""
        return frozenset[str]().union(*self.unnamed)

    def picture(self, frame: int) -> "Clip":
        """One frame by itself."""
        return replace(
            self,
            id=f"{self.id}/{frame}",
            pictures=(self.pictures[frame],),
            sights=(self.sights[frame],),
            uncounted=self.uncounted[frame : frame + 1],
            unnamed=self.unnamed[frame : frame + 1],
        )
