"""Perception nodes, the steps of a digital twin's plan, and the values that flow between them.

A node (a detector, a tracker, a depth network) gets a medium and the outputs of the nodes that its
plan names before it, and returns an `Output`; it never sees annotations or files. A node with
`by_question` also gets the phrases that the question names, but not the question. A node plugin
(group `harness.nodes`) is a function annotated with the class that it returns, so that a plan is
checked without loading a network. `harness.models` runs plans. Boxes are in pixels of the original
image, frames are numbers from 0 in the medium.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.errors import ModelError
from harness.masks import Track
from harness.media import Media
from harness.segmentation import Part, settings
from harness.types import Box

Floats: TypeAlias = NDArray[np.float32]
Plain: TypeAlias = "str | int | float | bool | None"


class Kind(StrEnum):
    """Type of a node's output."""

    FRAMES = "frames"
    DETECTIONS = "boxes"
    INSTANCES = "masks"
    DEPTH = "depth maps"
    STATISTICS = "depth statistics"
    FEATURES = "features"
    SEMANTICS = "semantics"
    WORDS = "words"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """Signature of a node: its output, the inputs it needs, and those it can use."""

    produces: Kind
    requires: frozenset[Kind] = frozenset()
    """Each must come from one of the dependencies."""
    accepts: frozenset[Kind] = frozenset()
    """Further types that a dependency may have."""
    summary: str
    """Its purpose, as a planner reads it."""

    @property
    def inputs(self) -> frozenset[Kind]:
        """Types that a dependency may have. Facts about frames may precede everything."""
        return self.requires | self.accepts | {Kind.FRAMES}


@dataclass(frozen=True, slots=True)
class FrameFacts:
    """Facts about single frames (by frame number) and about the whole medium, by name."""

    frames: Mapping[int, Mapping[str, Plain]]
    video: Mapping[str, Plain]


@dataclass(frozen=True, slots=True)
class Detection:
    """A labelled box in one frame, in pixels (right and bottom exclusive)."""

    frame: int
    box: Box
    label: str
    score: float


@dataclass(frozen=True, slots=True)
class Detections:
    """Boxes that a detector found."""

    found: tuple[Detection, ...]


@dataclass(frozen=True, slots=True)
class Instance:
    """One object: its mask in every frame of the medium."""

    track: Track
    label: str = ""
    score: float | None = None
    key: str = ""
    """Identity. A node that makes an instance leaves it empty; one that refines it keeps it."""


@dataclass(frozen=True, slots=True)
class Instances:
    """Objects in the order in which a twin lists them."""

    found: tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class DepthMaps:
    """Depth of each pixel (height × width) of single frames, by frame number."""

    maps: Mapping[int, Floats]
    meaning: str
    """Unit and direction, such as `metres, larger is farther`."""


class Moments(NamedTuple):
    """Mean and population standard deviation over the pixels of a mask."""

    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class DepthStatistics:
    """Depth of instances, by key and frame number; None where the mask is empty."""

    of: Mapping[str, Mapping[int, Moments | None]]
    meaning: str


@dataclass(frozen=True, slots=True)
class Features:
    """A vector for each instance, by key, and for each frame, by number."""

    instances: Mapping[str, Floats]
    frames: Mapping[int, Floats]


@dataclass(frozen=True, slots=True)
class Semantics:
    """Words for the medium, for its frames (by number) and for its instances (by key)."""

    video: str = ""
    frames: Mapping[int, str] = field(default_factory=dict)
    instances: Mapping[str, Mapping[str, Plain]] = field(default_factory=dict)
    """Attributes by name; `name` is the one by which the object is called."""


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of text that was read in one frame; the box is in pixels."""

    frame: int
    box: Box
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Words:
    """Text in the frames."""

    found: tuple[Word, ...]


Output: TypeAlias = (
    FrameFacts | Detections | Instances | DepthMaps | DepthStatistics | Features | Semantics | Words
)

OUTPUTS: Mapping[Kind, type] = {
    Kind.FRAMES: FrameFacts,
    Kind.DETECTIONS: Detections,
    Kind.INSTANCES: Instances,
    Kind.DEPTH: DepthMaps,
    Kind.STATISTICS: DepthStatistics,
    Kind.FEATURES: Features,
    Kind.SEMANTICS: Semantics,
    Kind.WORDS: Words,
}


class Node(Part, ABC):
    """One step of perception.

    `run` is called from one thread at a time. It may raise: the twin then says so, and the nodes
    that depend on it are left out.
    """

    kind: ClassVar[NodeKind]
    by_question: bool = False
    """True if its output depends on what the question names: `run_for` is given the phrases."""

    @abstractmethod
    def run(self, media: Media, indices: Sequence[int], inputs: Sequence[Output]) -> Output:
        """Return the node's output for a medium.

        Args:
            media: An image or a video.
            indices: Frames that the twin describes, rising. Instances have a mask in every frame
                of the medium, whatever these are.
            inputs: Outputs of the dependencies, in the order of the plan.
        """

    def run_for(
        self,
        media: Media,
        indices: Sequence[int],
        inputs: Sequence[Output],
        phrases: Sequence[str],
    ) -> Output:
        """Return the node's output for a medium and the phrases that a question names.

        Args:
            media: The image or video, as in `run`.
            indices: Indices of the frames, as in `run`.
            inputs: Outputs of earlier nodes, as in `run`.
            phrases: Things that the question names, such as `red mug`; none without `by_question`.
        """
        del phrases
        return self.run(media, indices, inputs)

    @property
    def _parts(self) -> Mapping[str, Part]:
        """Parts among its fields, such as a propagator, by the field's name."""
        names: list[str] = [item.name for item in fields(self)] if is_dataclass(self) else []
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if isinstance(value, Part)}

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of its parts."""
        return tuple(device for part in self._parts.values() for device in part.devices)

    def prepare(self) -> None:
        """Load what its parts load."""
        for part in self._parts.values():
            part.prepare()

    def describe(self) -> Mapping[str, Any]:
        """Return plain data that decides the output: settings, fingerprint of weights, …"""
        return {**settings(self), **{name: settings(part) for name, part in self._parts.items()}}


def instances_of(inputs: Sequence[Output]) -> tuple[Instance, ...]:
    """Return all instances among the inputs; of several with the same key, the last."""
    instances: dict[str, Instance] = {}
    for output in inputs:
        if isinstance(output, Instances):
            instances.update((instance.key, instance) for instance in output.found)
    return tuple(instances.values())


def detections_of(inputs: Sequence[Output]) -> tuple[Detection, ...]:
    """Return all boxes among the inputs."""
    detections: list[Detection] = []
    for output in inputs:
        if isinstance(output, Detections):
            detections.extend(output.found)
    return tuple(detections)


def check_output(who: str, output: Any, node_kind: Kind, media: Media) -> None:
    """Check a node's output: its type, its sizes against the medium's, and that JSON can hold it.

    Raises:
        ModelError: the output, by `who`, has another type; a mask or depth map another size; a
            number is not finite or not Python's; a frame is not in the medium; or a text is not
            Unicode.
    """
    if not isinstance(output, OUTPUTS[node_kind]):
        raise ModelError(
            who,
            expected=f"{node_kind} ({OUTPUTS[node_kind].__name__})",
            found=type(output).__name__,
        )
    shape = (media.size[1], media.size[0])
    sizes: list[tuple[tuple[int, ...], int]] = []
    if isinstance(output, Instances):
        tracks = [instance.track for instance in output.found]
        sizes = [((track.height, track.width), len(track)) for track in tracks]
    elif isinstance(output, DepthMaps):
        sizes = [(depth.shape, len(media)) for depth in output.maps.values()]
        if not all(np.isfinite(depth).all() for depth in output.maps.values()):
            raise ModelError(who, expected="finite depths", found="NaN or infinity")
    for size, frames in sizes:
        if size != shape or frames != len(media):
            raise ModelError(
                who,
                expected=f"{len(media)} frame(s) of {shape[0]} × {shape[1]} pixels",
                found=f"{frames} of {' × '.join(map(str, size))}",
            )
    for frame in _frames_in(output):
        if not (isinstance(frame, int) and frame in range(len(media))):
            raise ModelError(who, expected=f"frames below {len(media)}", found=repr(frame)[:40])
    for number in _numbers_in(output):
        if not (isinstance(number, (int, float)) and math.isfinite(number)):
            raise ModelError(who, expected="finite numbers", found=_short_repr(number))
    for value in _plain_in(output):
        if isinstance(value, str):
            # Half a surrogate pair cannot be written as UTF-8.
            is_plain = value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
        else:
            is_plain = value is None or (isinstance(value, (int, float)) and math.isfinite(value))
        if not is_plain:
            raise ModelError(who, expected="texts and finite numbers", found=_short_repr(value))


def _frames_in(output: object) -> Iterator[int]:
    """Yield the frame numbers in an output."""
    if isinstance(output, (Detections, Words)):
        yield from (item.frame for item in output.found)
    elif isinstance(output, (FrameFacts, Semantics, Features)):
        yield from output.frames


def _numbers_in(output: object) -> Iterator[Any]:
    """Yield the coordinates, scores and statistics in an output."""
    if isinstance(output, (Detections, Words)):
        for item in output.found:
            yield from (*item.box, item.score)
    elif isinstance(output, DepthStatistics):
        for frames in output.of.values():
            for moments in frames.values():
                yield from moments or ()
    elif isinstance(output, Instances):
        yield from (instance.score for instance in output.found if instance.score is not None)


def _plain_in(output: object) -> Iterator[Any]:
    """Yield the labels, texts and facts in an output."""
    if isinstance(output, (Detections, Instances)):
        yield from (item.label for item in output.found)
    elif isinstance(output, Words):
        yield from (word.text for word in output.found)
    elif isinstance(output, FrameFacts):
        for facts in (output.video, *output.frames.values()):
            yield from facts.values()
    elif isinstance(output, Semantics):
        yield from (output.video, *output.frames.values())
        for attributes in output.instances.values():
            yield from attributes.values()


def _short_repr(value: object) -> str:
    return f"{type(value).__name__} {ascii(value)[:40]}"
