"""Values that tasks, models and scorers exchange: samples, queries, predictions and targets.

A task makes samples (query and target), a model turns queries into predictions, a scorer compares
predictions with targets, and `harness.run` records all of them.
Boxes, points and masks are in pixels of the *original* image, the origin at its top left.
All values are frozen; sequences in them are tuples.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from harness.masks import Rle, SoftMask
from harness.media import Media


class AnswerForm(StrEnum):
    """Form of the answer to a question."""

    MASK = "mask"
    MASK_TRACK = "mask_track"
    BOXES = "boxes"
    BOX_TRACK = "box_track"
    BOX_3D = "box_3d"
    POINTS = "points"
    COUNT = "count"
    CHOICE = "choice"
    NUMBER = "number"
    INTERVAL = "interval"
    TEXT = "text"


class Box(NamedTuple):
    """A rectangle in pixels; `right` and `bottom` are exclusive."""

    left: float
    top: float
    right: float
    bottom: float


class Point(NamedTuple):
    """A place in pixels."""

    x: float
    y: float


class Interval(NamedTuple):
    """A time interval of a video, in seconds from its start."""

    start: float
    end: float


class Box3D(NamedTuple):
    """An axis-aligned box in metres: its centre and its full extent along each axis."""

    x: float
    y: float
    z: float
    width: float
    height: float
    length: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer: a prediction or the ground truth. A field without a value is None.

    Predictions and ground truth share one type, so that a perfect prediction is the target's
    answer. A question that asks for several forms (V-STaR's text, interval and boxes: a product)
    fills several fields.
    """

    masks: tuple[Rle, ...] | None = None
    """One mask for each frame; an image is one frame. An empty mask: no visible object."""
    instances: tuple[tuple[Rle, ...], ...] | None = None
    """Masks of each object, one for each frame; `masks` is their union. As many as `boxes`, in
    their order. None where a benchmark does not distinguish the objects; a prediction has them
    where the query asks for `instances`."""
    soft_masks: tuple[SoftMask, ...] | None = None
    """Confidences, one for each frame, for protocols that rank or compare objects by them."""
    boxes: tuple[Box, ...] | None = None
    box_scores: tuple[float, ...] | None = None
    """Confidences of `boxes` or `instances`, in their order."""
    points: tuple[Point, ...] | None = None
    box_track: tuple[Box | None, ...] | None = None
    """One box for each frame; None: the object is not visible in it."""
    boxes_3d: tuple[Box3D, ...] | None = None
    count: int | None = None
    choice: str | None = None
    """The letter of an option."""
    number: float | None = None
    interval: Interval | None = None
    text: str | None = None
    no_target: bool = False
    """NO_TARGET: the query refers to nothing in the media. Neither an empty mask nor a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationSettings:
    """Settings of a response that a benchmark prescribes; None: the model's own."""

    max_new_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    """Stop strings beside the model's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Input of a model, without the answer, split and benchmark name."""

    id: str
    """A hash of the official id; see `query_id`."""
    text: str
    media: tuple[Media, ...]
    forms: tuple[AnswerForm, ...]
    """The forms of answer expected; several for a product."""
    options: tuple[str, ...] = ()
    """The choices, in the order of their letters A, B, …"""
    objects: tuple[str, ...] = ()
    """Objects that the benchmark's own question names beside the text."""
    problem_type: str = ""
    """Name that the benchmark gives to such a question, where methods word one form in several
    ways: `OCR` (a text to transcribe) or `regression` (a number)."""
    instances: bool = False
    """True if the masks of each object are asked for, not only their union."""
    generation: GenerationSettings | None = None
    """Settings of the response, for models with one request a form; None: the model's own."""

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels that coordinates of the answer refer to."""
        return self.media[0].size

    @property
    def form(self) -> AnswerForm:
        """The first form of answer expected."""
        return self.forms[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Ground truth of a sample, which only a scorer may see."""

    answer: Answer
    ignore: tuple[Rle, ...] | None = None
    """Pixels that do not count, one mask a frame."""
    references: tuple[str, ...] = ()
    """Further right texts, for captions and free answers."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Plain data that one benchmark's scorer needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question with its ground truth (None if the organisers keep it)."""

    id: str
    """The benchmark's own id, as its card documents it."""
    query: Query
    target: Target | None
    unit: str = ""
    """Samples with the same unit are scored together and follow each other; default: alone."""
    group: str = ""
    """The image or video that statistics cluster by; default: the sample itself."""
    categories: Mapping[str, str] = field(default_factory=dict)
    """Breakdowns: the category's value by its name. Equal within a unit."""
    frames: tuple[str, ...] = ()
    """The names of the video's frames in the benchmark's files; () where they have none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", self.unit or self.id)
        object.__setattr__(self, "group", self.group or self.id)


class FailureKind(StrEnum):
    """Reason why there is no answer."""

    PARSE = "parse"
    """The response is not in the grammar, or no rule of the protocol reads an answer from it."""
    MODEL = "model"
    """The model raised, ran out of tokens, or returned NaN or infinity."""
    INFRASTRUCTURE = "infrastructure"
    """Not the model's doing: a damaged file, a lost worker, a missing prediction."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason for a missing answer; the protocol scores it, and boards count it."""

    kind: FailureKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Cost of one prediction; zero where a model has no such thing."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    frames: int = 0
    """Frames that the reasoner saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The frames of one medium that a request showed a network; never their pixels."""

    medium: int | str = 0
    """Its place among the query's media; the content id of a medium that is not among them."""
    frames: tuple[int, ...]
    """Numbers from 0 in the medium."""
    times: tuple[float, ...] = ()
    """Seconds from the video's start for each frame, to the millisecond; () for an image."""
    resize: tuple[int, int] | None = None
    """(width, height) that the frames were resized to for the network's processor; None: not."""
    canvas: tuple[int, int] | None = None
    """(width, height) in pixels as the network saw them; None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierTurn:
    """A turn of the user that stands before a request's own, and the response to it."""

    text: str
    response: str
    media: int = 0
    """Number of the request's media that are shown in it: the next ones, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of one call of a network."""

    text: str
    system: str | None = None
    shown: tuple[Shown, ...] = ()
    prefix: str = ""
    """The beginning of the response that the network was made to go on from."""
    temperature: float | None = None
    """Sampling temperature; None: the backend's default."""
    earlier: tuple[EarlierTurn, ...] = ()
    """Turns before it."""
    generation: GenerationSettings | None = None
    """Settings that it was sent with, where the benchmark prescribes some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a network for a sample."""

    request: Request
    key: str = ""
    """Key of the sampling, after the query's id: the form, the vote, `:again`."""
    response: str | None
    """Raw text, its prefix included; None: the network failed."""
    model: str = ""
    """Name under which a server answered; empty: it gave none, or there is no server."""


@dataclass(frozen=True, slots=True)
class ParsedObject:
    """One object that a response names, in pixels of the original image."""

    box: Box | None = None
    positive: tuple[Point, ...] = ()
    negative: tuple[Point, ...] = ()
    """Points that are not on it."""
    phrase: str = ""
    """Its own words, for a segmenter that reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """Parsed content of a response for one form of answer, or the reason why there is none.

    Letters, numbers and texts stand in the prediction's answer.
    """

    form: AnswerForm
    objects: tuple[ParsedObject, ...] = ()
    phrase: str = ""
    """Words for the objects that have no phrase themselves."""
    frame: int | None = None
    """The frame of a video that the objects are in; None: in an image."""
    error: str = ""
    """Reason that the response could not be read."""
    cut: bool = False
    """True if the response reached the limit of new tokens."""
    outside: int = 0
    """Number of coordinates beyond the image, which were moved to its edge."""
    repairs: tuple[str, ...] = ()
    """Repairs that reading the response took, such as a code fence that was taken off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptationStep:
    """Numbers of one step in which a network learned from the sample before it answered.

    A number is None where the method has no such thing, or where it was not finite.
    """

    label: int | None = None
    """Index of the rollout that was the pseudo-label; None: there was none."""
    agreement: float | None = None
    """Mean score of the other rollouts against the pseudo-label, in the unit of its reward."""
    parsed: int | None = None
    """Rollouts that could be read."""
    rewards: tuple[float, ...] = ()
    """Reward of each rollout, in the order in which they were drawn."""
    tokens: float | None = None
    """Mean length of the responses that were learned from, in tokens."""
    characters: float | None = None
    """Mean length of their reasoning, in characters."""
    entropy: float | None = None
    """Mean entropy of a token that was learned from, in nats."""
    loss: float | None = None
    grad_norm: float | None = None
    """Norm of the gradient before it was clipped."""
    rolled_back: bool = False
    """True if the update was NaN or infinite: it was not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """Adaptation of a network to the sample before it answered; its weights were put back."""

    method: str
    steps: tuple[AdaptationStep, ...] = ()

    @property
    def rolled_back(self) -> int:
        """Number of updates that were not made because they were NaN or infinite."""
        return sum(step.rolled_back for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A model's answer to one query. Exactly one of `answer` and `failure` is given."""

    query_id: str
    answer: Answer | None = None
    failure: Failure | None = None
    responses: tuple[str, ...] = ()
    """The texts that the answer was read from, in the order in which they were generated."""
    calls: tuple[Call, ...] = ()
    """Every call of a network for this sample, in order: votes and second tries too."""
    parsed: tuple[Parsed, ...] = ()
    """One for each form of answer, in the order of the last responses."""
    usage: Usage = Usage()
    notes: tuple[str, ...] = ()
    """Steps that were needed to read the response, such as a repair of its JSON."""
    adaptation: Adaptation | None = None
    """Adaptation to the sample before the answer; None: there was none."""

    def __post_init__(self) -> None:
        if (self.answer is None) == (self.failure is None):
            raise ValueError("a prediction has either an answer or a failure")


def query_id(sample_id: str) -> str:
    """Return the id under which a model sees a sample: 128 bits of BLAKE2b, in hexadecimal."""
    return hashlib.blake2b(sample_id.encode(), digest_size=16, person=b"harness-query").hexdigest()


def failed_prediction(
    query: Query,
    kind: FailureKind,
    message: str,
    *,
    responses: tuple[str, ...] = (),
    usage: Usage | None = None,
) -> Prediction:
    """Return a prediction that holds the reason why there is no answer."""
    return Prediction(
        query_id=query.id,
        failure=Failure(kind, message),
        responses=responses,
        usage=usage or Usage(),
    )
