"""Clips from the readers: a stretch of video or one image, and the objects in each frame."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from harness.types import Box, Box3D
from stv_builder.geometry import Place

Source: TypeAlias = Literal["tao", "kitti", "scannet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectView:
    """One object in one frame."""

    track: str
    """Names the object within its clip."""
    category: str
    """Name of the object for readers; empty where the source's category is too vague."""
    box: Box
    """Pixels of the image, not cut at its borders."""
    visible: float
    """The share of the object that can be seen, from 0 to 1, as the reader estimates it."""
    centre: Place | None = None
    """Place in the frame's camera: x right, y up, z forward, metres. None without depth."""
    extent: Box3D | None = None
    """The axis-aligned box around it in the frame's camera, in the same axes."""
    ground: Place | None = None
    """Seen from above, x to the right and y ahead (z is not used), in one frame for the image."""
    world: Place | None = None
    """Place in one coordinate frame for the whole clip, metres: displacement is measured in it."""
    sides: tuple[float, float, float] | None = None
    """Length, width and height of the object in metres, in any order."""
    clear: bool = True
    """True if it passed the filters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """A few frames with all their annotated objects."""

    id: str
    source: Source
    images: tuple[str, ...]
    """Paths below the data root, one a frame."""
    rate: float
    """Frames a second."""
    size: tuple[int, int]
    """(width, height) in pixels."""
    sights: tuple[tuple[ObjectView, ...], ...]
    """One tuple a frame."""
    uncounted: tuple[frozenset[str], ...] = ()
    """Categories of each frame that may have objects without annotation; empty if none has."""
    unnamed: tuple[frozenset[str], ...] = ()
    """Categories of each frame in which an object without annotation may be as clear as an
    annotated one, so that "the car" is ambiguous."""
    room: float | None = None
    """Square metres of the room, indoors."""
    still: bool = False
    """True if nothing moves but the camera."""

    @property
    def is_video(self) -> bool:
        """True if it has more than one frame."""
        return len(self.images) > 1

    def seconds(self, frame: int) -> float:
        """Return the display time of a frame, in seconds from the clip's start."""
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

    def image(self, frame: int) -> "Clip":
        """One frame by itself."""
        return replace(
            self,
            id=f"{self.id}/{frame}",
            images=(self.images[frame],),
            sights=(self.sights[frame],),
            uncounted=self.uncounted[frame : frame + 1],
            unnamed=self.unnamed[frame : frame + 1],
        )
