"""Base classes of segmenters and propagators, and the protocol of networks that emit masks.

A `Segmenter` turns prompts (boxes, points, phrases) into masks of one frame, a `Propagator` carries
them through a video; models call both after reading a response. Prompts are in pixels of the image,
masks are boolean arrays of height × width.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

from harness.chat import ChatRequest
from harness.errors import UsageError
from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.types import Answer, Box, Point, Prediction, Query


@runtime_checkable
class MaskEmitter(Protocol):
    """A model around a `MaskNetwork`, which can be exchanged, say for one with perfect masks."""

    def predict(self, queries: Sequence[Query]) -> Sequence[Prediction]:
        """Return one prediction per query, in the order of the queries."""

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the texts of responses that express `answer`, one per form; empty for masks."""

    def with_network(self, network: "MaskNetwork") -> Self:
        """Return the same model with another network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPrompt:
    """One object for a segmenter, by any of these, in pixels of the image that is segmented."""

    box: Box | None = None
    positive: tuple[Point, ...] = ()
    """Points on the object."""
    negative: tuple[Point, ...] = ()
    """Points beside it."""
    phrase: str = ""
    """Words for it. By itself, a phrase names everything in the image that it fits."""


def settings(part: "Part") -> dict[str, object]:
    """Return a part's name and its plain settings, for the record of the model."""
    plain: dict[str, object] = {"name": part.name}
    names: list[str] = (
        [field.name for field in dataclass_fields(part)] if is_dataclass(part) else []
    )
    for name in names:
        value = getattr(part, name)
        if value is None or isinstance(value, (bool, int, float, str)):
            plain[name] = value
    return plain


class Part:
    """A part of a model that computes on its own: a segmenter, or a propagator."""

    missing: str = ""
    """Reason why it cannot compute, and what to do about it; empty: it can."""
    reads_pixels: bool = True
    """False: it uses an image's size alone. A segmenter is then given blank images."""

    if TYPE_CHECKING:

        @property
        def name(self) -> str:
            """Short name for records."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices that it computes on; see `Model.devices`."""
        return ()

    def prepare(self) -> None:
        """Load what is loaded when first used; see `Model.prepare`."""


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """One of the objects that a phrase names."""

    mask: BoolArray
    score: float
    """Confidence, 0 to 1."""


class Segmenter(Part, ABC):
    """Turns prompts into masks, one mask an object."""

    @abstractmethod
    def segment(self, image: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """Return one boolean mask (height × width of `image`) a prompt."""

    def find_instances(self, image: Frame, phrase: str) -> list[Instance]:
        """Return every object of an image that a phrase names, the most confident first.

        Raises:
            UsageError: the segmenter does not distinguish objects by a phrase.
        """
        del image, phrase
        raise UsageError(
            f"segmenter {self.name}",
            expected="one that finds all objects of a phrase",
            found="one that reads boxes or points",
            fix="Use segmenter=sam3(checkpoint=…).",
        )


class Propagator(Part, ABC):
    """Carries masks of one frame to all frames.

    For each object it returns a `harness.masks.Track`, which takes little memory, or, for short
    videos, a list of arrays, which takes a byte for each pixel of each frame.
    """

    @abstractmethod
    def propagate(
        self, video: Media, start: int, masks: Sequence[BoolArray]
    ) -> Sequence[Sequence[BoolArray]]:
        """Return for each mask of frame `start` that object's mask in every frame of `video`.

        Runs forward and backward from `start`; the result at `start` is the mask given.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskResponse:
    """A text, and the masks that a network emitted with it."""

    text: str = ""
    masks: Sequence[Sequence[BoolArray]] = ()
    """One track an object: a boolean mask for each frame of the first medium, in its order, height
    × width of the original image (an image is one frame). No object: there is no target."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    frames: int | None = None
    """Number of frames that the language network saw; None: all of the request."""
    scores: tuple[float, ...] = ()
    """Confidence of each object, 0 to 1; empty: not known."""


class MaskNetwork(Protocol):
    """A network that emits masks, in this process: any class with this method.

    A request has the text, and in `media` the images or videos that the text is about:
    `media[0].frame(k)` is a frame (height × width × 3 bytes, RGB), `len(media[0])` the number of
    frames, `media[0].times()` their seconds.
    """

    def generate(self, requests: Sequence[ChatRequest]) -> Sequence[MaskResponse]:
        """One response a request, in order.

        Raises:
            OutOfMemory: the batch does not fit (or torch's own error); the engine tries halves.
        """
