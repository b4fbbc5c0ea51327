"""Perception nodes: what a plan of a digital twin is made of, and the values that flow between.

A node sees pixels and the outputs of the nodes that its plan names before it, and nothing else: no
annotation, no file. One with `by_question` is also given the phrases that the question names, and
no more of it. A node is installed in the plugin group `harness.nodes` as a
function whose annotation says the class that it returns, so that a plan is checked without loading
a network.
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
    """Further types of dependency that it uses."""
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
    """Objects in the order in which they are to be listed."""

    found: tuple[Instance, ...]


@dataclass(frozen=True, slots=True)
class DepthMaps:
    """A depth a pixel (height × width) of single frames, by frame number."""

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
        """Look at a medium.

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
        """Look at a medium for what a question names; without `by_question` there are no phrases.

        Args:
            media: See `run`.
            indices: See `run`.
            inputs: See `run`.
            phrases: What the question names, such as `red mug`; empty: nothing.
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
    """All instances among the inputs; of those with one key the last."""
    instances: dict[str, Instance] = {}
    for given in inputs:
        if isinstance(given, Instances):
            instances.update((instance.key, instance) for instance in given.found)
    return tuple(instances.values())


def detections_of(inputs: Sequence[Output]) -> tuple[Detection, ...]:
    """All boxes among the inputs."""
    return tuple(
        detection for given in inputs if isinstance(given, Detections) for detection in given.found
    )


def check_output(who: str, output: Any, kind: Kind, media: Media) -> None:
    """Hold a node's output to its kind, to the medium's size, and to what JSON can hold.

    Raises:
        ModelError: it is of another type, a mask or depth map of another size, a number is not
            finite or not Python's, a frame is not one of the medium's, or a text is not Unicode.
    """
    if not isinstance(output, OUTPUTS[kind]):
        raise ModelError(
            who, expected=f"{kind} ({OUTPUTS[kind].__name__})", found=type(output).__name__
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
            raise ModelError(who, expected="finite numbers", found=_shown(number))
    for value in _plain_in(output):
        if isinstance(value, str):
            fits = value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
        else:
            fits = value is None or (isinstance(value, (int, float)) and math.isfinite(value))
        if not fits:
            raise ModelError(who, expected="texts and finite numbers", found=_shown(value))


def _frames_in(output: object) -> Iterator[int]:
    if isinstance(output, (Detections, Words)):
        yield from (item.frame for item in output.found)
    elif isinstance(output, (FrameFacts, Semantics, Features)):
        yield from output.frames


def _numbers_in(output: object) -> Iterator[Any]:
    if isinstance(output, (Detections, Words)):
        for item in output.found:
            yield from (*item.box, item.score)
    elif isinstance(output, DepthStatistics):
        for frames in output.of.values():
            for pair in frames.values():
                yield from pair or ()
    elif isinstance(output, Instances):
        yield from (instance.score for instance in output.found if instance.score is not None)


def _plain_in(output: object) -> Iterator[Any]:
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


def _shown(value: object) -> str:
    return f"{type(value).__name__} {ascii(value)[:40]}"
