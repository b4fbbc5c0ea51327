"""What answers: the protocols that models and their parts fulfil."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, Literal, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from harness.errors import UsageError
from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.types import Answer, Box, Point, Prediction, Query

T = TypeVar("T")


class Model(Protocol):
    """Answers queries. It sees nothing but the queries, and never a target.

    `batch_size` is how many queries it likes at once; the plan of batches depends on it and on
    nothing else, so that results do not depend on the number of workers.

    It may have a number `rounds`: it is given so many times `batch_size`, if it orders them by
    length itself, or lets the next ones take the places of those that are answered.

    It may have a method `looks_at(query)`: for each medium, in order, the numbers of the frames
    that it looks at first (which a network is shown; not those that masks are carried to later).
    They are decoded before it is asked; without the method all frames are, where they fit.

    It may have a method `prepare()`, which is called once, before the first batch: what it raises
    (weights that cannot be loaded, …) ends the run instead of failing each sample.

    It may have a set `forms`: the forms of answer that it can give. A run in which every sample
    asks for another is refused before it begins; without the set, none is.

    Where it, or a part of it, computes with torch, that has a setting `device` (`cpu`, `cuda:1`,
    `auto`; nothing that loads weights), by which the run's record names the card.
    """

    @property
    def name(self) -> str:
        """A short name for boards."""

    @property
    def batch_size(self) -> int:
        """How many queries `predict` is given at most."""

    def describe(self) -> Mapping[str, Any]:
        """Plain data for the record: resolved arguments, fingerprint of the weights, …"""

    def predict(self, queries: Sequence[Query]) -> Sequence[Prediction]:
        """One prediction a query, in the order of the queries.

        Raises:
            OutOfMemory: the batch does not fit; the engine tries halves.
        """


@runtime_checkable
class Staged(Protocol):
    """A model whose work falls into stages, which the engine runs side by side.

    Language: `ask`. Segmentation: `begin`, sample by sample. Propagation: what that returns, when
    it is called. Each is called from one thread at a time, but not from the same one; `ask` from as
    many at once as `turns` says. Together they are `predict`, to the bit.

    It may have a method `halt()`, which is called when the run ends early: `ask` is to give up.

    It may have a number `waited`: the seconds that its network has stood still so far because what
    it was to be shown was not ready (None: not known). `timing.json` says what of it was in a run.

    It may have a method `expect(queries)`, which is called in a thread of its own while `ask` is at
    work: `ask` of these is likely to be next, and what it begins with can be made ready.

    It may have a method `asking(queries)`, an iterator: the place of a query with what `ask` says
    to it, as soon as that is said, in any order. It is used where `by_sample` is true, which says
    that what is said to a query hangs on no other one, but for the last bits of the arithmetic:
    what was answered is kept sample by sample then, and only what is missing asked for again.

    It may have a method `objects(query, asked)`, which is called before `begin`, in its thread: of
    how many objects there will be masks at once. By them it is known what memory a sample needs.
    """

    @property
    def turns(self) -> int:
        """How many batches `ask` takes at once: 1 for a network here, more for a server."""

    def ask(self, queries: Sequence[Query]) -> Sequence[Any]:
        """What the network says to each query, for `begin`.

        Raises:
            OutOfMemory: the batch does not fit; the engine tries halves.
        """

    def begin(self, query: Query, asked: Any) -> Callable[[], Prediction]:
        """Read what was said and segment; the rest of the work is what is returned."""


@runtime_checkable
class ReplyReader(Protocol):
    """A model that can read replies it did not write: stored ones, or perfect ones."""

    def read(self, query: Query, replies: Sequence[str]) -> Prediction:
        """Parse, rescale and segment exactly as for its own replies."""

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """The replies that say `answer` in this model's grammar and coordinates."""

    def with_perception(self, segmenter: "Segmenter", propagator: "Propagator") -> Self:
        """The same reader with other perception."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPrompt:
    """Where one object is, in pixels of the picture that is segmented."""

    box: Box | None = None
    positive: tuple[Point, ...] = ()
    negative: tuple[Point, ...] = ()
    phrase: str = ""


def settings(part: Any) -> dict[str, Any]:
    """A part's name and its plain settings, for the record of the model that it is part of."""
    fields = dataclass_fields(part) if is_dataclass(part) else ()
    plain = {field.name: getattr(part, field.name) for field in fields}
    kept = {
        key: value
        for key, value in plain.items()
        if value is None or isinstance(value, (bool, int, float, str))
    }
    return {"name": part.name, **kept}


class Segmenter(Protocol):
    """Prompts in, one mask an object out."""

    @property
    def name(self) -> str:
        """A short name for records."""

    def segment(self, picture: Frame, prompts: Sequence[ObjectPrompt]) -> list[BoolArray]:
        """One boolean mask (height × width of `picture`) a prompt."""


class Propagator(Protocol):
    """Masks in one frame in, masks in all frames out.

    It gives a `harness.masks.Track` an object if memory is not to grow by a byte a pixel of every
    frame; lists of arrays are as good where videos are short.
    """

    @property
    def name(self) -> str:
        """A short name for records."""

    def propagate(
        self, video: Media, start: int, masks: Sequence[BoolArray]
    ) -> Sequence[Sequence[BoolArray]]:
        """For each mask of frame `start`, that object's mask in every frame of `video`.

        Runs forward and backward from `start`; the result at `start` is the mask given.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One turn for a vision-language model."""

    key: str
    """Names the sample and rollout; sampling is keyed by it."""
    text: str
    media: tuple[Media, ...] = ()
    frames: tuple[tuple[int, ...], ...] = ()
    """The frames to show, one tuple a medium, in its order; empty: all of them."""
    resize: tuple[int, int] | None = None
    """(width, height) to squash every picture to, bilinear; None leaves it to the processor."""
    resize_others: tuple[int, int] | None = None
    """The same for the media after the first; None: as the first."""
    system: str | None = None
    prefix: str = ""
    """What the reply begins with, and its text too: the network goes on from there."""
    written: tuple[int, ...] = ()
    """Tokens that follow the prompt: turns that were written before, and what came between them.

    Tokens, as text that is cut into tokens again is cut otherwise. For networks in process.
    """
    max_new_tokens: int = 1024
    stop: tuple[str, ...] = ()
    """A reply ends before the first of these texts to be complete in what the network writes."""
    temperature: float | None = None
    """What this reply is drawn at, by a backend that draws; None: at the backend's own."""

    def __post_init__(self) -> None:
        """Refuse an empty stop string, which would end every reply at once.

        Raises:
            UsageError: no reply can be drawn at this temperature.
        """
        if "" in self.stop:
            raise ValueError(f"request {self.key}: a stop string is empty")
        if self.temperature is not None and not 0.0 <= self.temperature <= 100.0:
            raise UsageError(
                f"request {self.key}",
                expected="0 ≤ temperature ≤ 100",
                found=f"temperature {self.temperature}",
            )

    def temperature_or(self, own: float) -> float:
        """The temperature that the reply is drawn at, where the backend's own is `own`."""
        return own if self.temperature is None else self.temperature

    def squash(self, place: int) -> tuple[int, int] | None:
        """(width, height) that the pictures of one medium are squashed to; None: as they are."""
        return self.resize if place == 0 else self.resize_others or self.resize


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """What the network wrote, special tokens removed."""

    text: str
    tokens: tuple[int, ...] = ()
    """Those that were written, end token included; empty where the backend does not say."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut: bool = False
    """It reached the limit of new tokens, and no stop string."""
    canvases: tuple[tuple[int, int], ...] = ()
    """(width, height) of each picture or frame set as the network saw it."""
    again: str = ""
    """What the network was made to begin with when asked again, as its first reply could not be
    read; empty: it was asked once. Tokens are of both."""
    in_vain: str = ""
    """Why this is the first reply although it was asked again; empty: it is the second one."""


Conversation: TypeAlias = Generator[Sequence[ChatRequest], Sequence[ChatReply], T]
"""Yields what is to be asked, is sent one reply a request, in order, and so on until it returns."""


class Chat(Protocol):
    """A vision-language network behind one call.

    It may have a method `converse(conversations)`, which returns what each `Conversation` returns,
    in order: it lets each go on as soon as its own replies are there. Replies are those of
    `generate`. Without it conversations go turn by turn (`harness.models.conversing`).
    """

    @property
    def batch_size(self) -> int:
        """How many requests it likes at once."""

    @property
    def coordinates(self) -> Literal["pixels", "thousandths"]:
        """What the backbone's numbers mean: pixels of its canvas, or 0 to 1000 along each side."""

    def describe(self) -> Mapping[str, Any]:
        """Plain data for the record."""

    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """One reply a request, in order."""

    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """(width, height) of the first medium as the network would see it."""

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, for usage."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a judge said of one answer."""

    score: float | None
    """From 0 to 1; None by a rubric without a scale, where the text is what counts."""
    text: str


class Judge(Protocol):
    """Judges free text by a rubric. A task names the rubric; the command brings the judge."""

    @property
    def name(self) -> str:
        """Model, prompt and temperature, for the record."""

    def judge(self, rubric: str, question: str, answer: str, truth: str) -> Verdict:
        """One verdict."""
