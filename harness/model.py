"""The contracts of models and of their parts: every member that the engine uses, with defaults."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, is_dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

from harness.coordinates import Coordinates as Coordinates
from harness.errors import UsageError
from harness.masks import BoolArray
from harness.media import Frame, Media
from harness.options import Only
from harness.spec import Spec
from harness.types import (
    Answer,
    AnswerForm,
    Box,
    Call,
    EarlierTurn,
    GenerationSettings,
    Point,
    Prediction,
    Query,
)

T = TypeVar("T")

Tensor: TypeAlias = Any
"""torch's, which the core does not import."""


class Model(ABC):
    """Base class of models. A model sees only queries, never a target.

    Derive a model from this class: what it does not define has the default below, and the engine
    asks a model for nothing that is not declared here or in `StagedModel`.
    """

    built_from: Spec | None = None
    """The SPEC that `harness.load_model` made it from."""

    # Declared to type checkers alone: a property would be taken for the default of the field by
    # which a dataclass defines it.
    if TYPE_CHECKING:

        @property
        def name(self) -> str:
            """Short name for boards."""

        @property
        def batch_size(self) -> int:
            """Largest number of queries that `predict` is given at once.

            The plan of batches depends on it and on nothing else, so that results do not depend
            on the number of workers.
            """

    @abstractmethod
    def describe(self) -> Mapping[str, object]:
        """Return JSON data for the record: resolved arguments, fingerprint of the weights, …"""

    @abstractmethod
    def predict(self, queries: Sequence[Query]) -> Sequence[Prediction]:
        """Return one prediction per query, in the order of the queries.

        Raises:
            OutOfMemory: the batch does not fit; the engine tries halves.
        """

    @property
    def forms(self) -> frozenset[AnswerForm] | None:
        """Supported answer forms; None: unknown.

        A run in which every sample asks for another form is refused before it begins.
        """
        return None

    @property
    def missing_parts(self) -> Mapping[AnswerForm, str]:
        """Forms of answer that need a part that nobody chose, each with what to do about it.

        A run with a sample that asks for one of them is refused before it begins.
        """
        return {}

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices that it computes on, such as `("cuda:1",)` or `("auto",)`; none: the CPU.

        They follow from settings alone and load nothing. The run's record names the cards.
        """
        return ()

    @property
    def rounds(self) -> int:
        """Number of batches, of `batch_size` queries each, to give `predict` at once.

        More than 1 where it orders queries by length itself, or where the next queries take the
        places of those that are answered.
        """
        return 1

    @property
    def sorts_by_length(self) -> bool:
        """Return True if each batch should hold queries of similar length."""
        return False

    def looks_at(self, query: Query) -> Sequence[Sequence[int]]:
        """Return the frames that the model reads first, a sequence of indices for each medium.

        They are decoded before it is asked; frames that masks are carried to later need not be
        among them. By default all frames are, where they fit.
        """
        return [range(len(media)) for media in query.media]

    def prepare(self) -> None:  # noqa: B027 - nothing to load is the usual case
        """Load what is loaded once, before the first batch.

        What it raises (weights that cannot be loaded, …) ends the run instead of failing each
        sample.
        """


class Answered(Protocol):
    """Result of the language stage for one query; its type is the model's own."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call of a network for the query, in order; the record always has them."""


Result = TypeVar("Result", bound=Answered)
"""Type of the language stage's result for one query of a `StagedModel` model."""


class StagedModel(Model, Generic[Result]):
    """A model whose work falls into stages, which the engine runs side by side.

    Language: `generate`. Segmentation: `begin`, sample by sample. Propagation: the function that
    `begin` returns. Each is called from one thread at a time, but not from the same one; `generate`
    from as many at once as `turns` says. Together they are `predict`, to the bit.
    """

    @abstractmethod
    def generate(self, queries: Sequence[Query]) -> Sequence[Result]:
        """Return the result of the language stage for each query, for `begin`.

        Raises:
            OutOfMemory: the batch does not fit; the engine tries halves.
        """

    @abstractmethod
    def begin(self, query: Query, text: Result, /) -> Callable[[], Prediction]:
        """Read the language stage's result and segment; return a function that does the rest."""

    def predict(self, queries: Sequence[Query]) -> Sequence[Prediction]:
        """Run the stages one after another."""
        text = self.generate(queries)
        return [self.begin(query, one)() for query, one in zip(queries, text, strict=True)]

    @property
    def turns(self) -> int:
        """Batches that `generate` takes at once: 1 for a network here, more for a server."""
        return 1

    @property
    def by_sample(self) -> bool:
        """Return True if an answer depends on its own query alone, but for rounding.

        The engine then uses `generate_as_completed`: it keeps results sample by sample, and repeats
        only those that are missing.
        """
        return False

    def generate_as_completed(self, queries: Sequence[Query]) -> Iterator[tuple[int, Result]]:
        """Yield the place of each query with its result of `generate`, once that is complete."""
        yield from enumerate(self.generate(queries))

    def prepare_next(self, queries: Sequence[Query]) -> None:
        """Prepare the first inputs of `generate` for these queries, which is likely to come next.

        Called in a thread of its own while `generate` is at work.
        """

    def halt(self) -> None:
        """Make `generate` stop early, because the run ends."""

    @property
    def wait_seconds(self) -> float | None:
        """Seconds that the network has waited for images so far; None: not known.

        `timing.json` has the share of a run.
        """
        return None

    @property
    def part_seconds(self) -> Mapping[str, float]:
        """Seconds of parts of `generate` so far, by name, for `timing.json`; empty: none."""
        return {}

    def objects(self, query: Query, text: Result, /) -> int | None:
        """Return the number of objects that will have masks at once; None: not known.

        Called before `begin`, in its thread, to estimate the memory that the sample needs.
        """
        return None


@runtime_checkable
class ResponseReader(Protocol):
    """A model that can read responses it did not write: stored ones, or perfect ones."""

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Parse, rescale and segment exactly as for its own responses.

        Args:
            query: The question.
            responses: One a form of answer.
            calls: Those that the responses are from, where a record has them: pixels are those of
                the canvas in it, whatever this model's own network would see.
        """

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the responses that express `answer` in this model's grammar and coordinates."""

    def with_perception(self, segmenter: "Segmenter", propagator: "Propagator") -> Self:
        """Return the same reader with another segmenter and propagator."""


ReaderPart: TypeAlias = Literal["coordinates", "segmenter", "propagator"]


@runtime_checkable
class PartedReader(ResponseReader, Protocol):
    """A reader whose parts behind the parser can be exchanged with another's."""

    @property
    def segmenter(self) -> "Segmenter":
        """Part that makes the masks of one frame."""

    @property
    def propagator(self) -> "Propagator":
        """Part that carries them to the other frames."""

    def with_part(self, part: ReaderPart, other: Self) -> Self:
        """Return the same reader with one part of another: its parser, and that part."""


class RecordedReader(ResponseReader, Protocol):
    """A reader that a record describes, such as every `Model` that reads responses."""

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices that it computes on; see `Model.devices`."""

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""


@runtime_checkable
class MaskEmitter(Protocol):
    """A model whose network emits masks: another can take its place, such as a perfect one."""

    def predict(self, queries: Sequence[Query]) -> Sequence[Prediction]:
        """Return one prediction per query, in the order of the queries."""

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the texts of responses that express `answer`, one a form; empty for masks."""

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
    names: list[str] = (
        [field.name for field in dataclass_fields(part)] if is_dataclass(part) else []
    )
    plain = {name: getattr(part, name) for name in names}
    kept = {
        key: value
        for key, value in plain.items()
        if value is None or isinstance(value, (bool, int, float, str))
    }
    return {"name": part.name, **kept}


class Part:
    """A part of a model that computes on its own: a segmenter, or a propagator."""

    missing: str = ""
    """Reason why it cannot compute, and what to do about it; empty: it can."""

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
        """Return every object of an image that a phrase names, by falling confidence.

        Raises:
            UsageError: it does not tell objects apart by a phrase.
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

    It gives a `harness.masks.Track` an object if memory is not to grow by a byte a pixel of every
    frame; lists of arrays are as good where videos are short.
    """

    @abstractmethod
    def propagate(
        self, video: Media, start: int, masks: Sequence[BoolArray]
    ) -> Sequence[Sequence[BoolArray]]:
        """Return for each mask of frame `start` that object's mask in every frame of `video`.

        Runs forward and backward from `start`; the result at `start` is the mask given.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One turn for a vision-language model."""

    key: str
    """Name of the sample and rollout; it seeds sampling."""
    text: str
    """Backends take special tokens out of it, so that a question cannot end its turn."""
    marks: tuple[str, ...] = ()
    """Special tokens of the request's own wording, such as `<ref>`, that stay in `text`."""
    media: tuple[Media, ...] = ()
    frames: tuple[tuple[int, ...], ...] = ()
    """Frames to show, one tuple a medium, in the medium's order; empty: all of them."""
    resize: tuple[int, int] | None = None
    """(width, height) to squash every image to, bilinear; None leaves it to the processor."""
    resize_others: tuple[int, int] | None = None
    """(width, height) to squash the media after the first to; None: as the first."""
    system: str | None = None
    earlier: tuple[EarlierTurn, ...] = ()
    """Turns before this one, which has the media that they leave; a backend without them refuses.
    """
    prefix: str = ""
    """Beginning of the response and of its text: the network continues from there."""
    written: tuple[int, ...] = ()
    """Tokens that follow the prompt: the network's earlier turns, and the texts injected between.

    They are tokens because text may be tokenized otherwise a second time. For networks in process.
    """
    max_new_tokens: int = 1024
    stop: tuple[str, ...] = ()
    """A response ends before the first of these texts to be complete in what the network writes."""
    temperature: float | None = None
    """Temperature of this response, for a backend that samples; None: the backend's own."""
    top_p: float | None = None
    """Nucleus of this response's distribution; None: the backend's own."""

    def __post_init__(self) -> None:
        """Refuse an empty stop string, which would end every response at once.

        Raises:
            UsageError: no response can be drawn at this temperature.
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
        """Return the temperature of the response, where the backend's own is `own`."""
        return own if self.temperature is None else self.temperature

    def top_p_or(self, own: float) -> float:
        """Return the nucleus of the response, where the backend's own is `own`."""
        return own if self.top_p is None else self.top_p

    def with_generation(self, given: GenerationSettings | None) -> Self:
        """Return the same request with the settings that a benchmark prescribes."""
        if given is None:
            return self
        return replace(
            self,
            max_new_tokens=given.max_new_tokens or self.max_new_tokens,
            temperature=self.temperature if given.temperature is None else given.temperature,
            top_p=self.top_p if given.top_p is None else given.top_p,
            stop=(*self.stop, *given.stop),
        )

    def squash(self, place: int) -> tuple[int, int] | None:
        """Return (width, height) to squash the images of one medium to; None: as they are."""
        return self.resize if place == 0 else self.resize_others or self.resize


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatResponse:
    """A network's response to one request, special tokens removed."""

    text: str
    tokens: tuple[int, ...] = ()
    """Tokens of the response, end token included; empty if the backend does not give them."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cut: bool = False
    """True if it reached the limit of new tokens, and no stop string."""
    stopped: str = ""
    """Stop string that ended it, which `text` lacks; empty: none did."""
    canvases: tuple[tuple[int, int], ...] = ()
    """(width, height) of each image or frame set as the network saw it."""
    model: str = field(default="", compare=False)
    """Name under which a server answered; empty: it gave none, or there is no server."""
    calls: tuple[tuple[ChatRequest, "ChatResponse | None"], ...] = ()
    """Requests sent in the request's place, in order, each with its response (None: it failed);
    empty: the request itself, once."""
    again: str = ""
    """Beginning that the second request gave, as the first response could not be read; empty:
    there was one request. Tokens are of both."""
    in_vain: str = ""
    """Reason why this is the first response in spite of a second request; empty: it is not."""

    def calls_of(
        self, request: ChatRequest
    ) -> tuple[tuple[ChatRequest, "ChatResponse | None"], ...]:
        """Return every call that led to this response to `request`, with its response."""
        return self.calls or ((request, self),)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings:
    """Settings of learning from one request."""

    finetune: Literal["full", "lora"] = "full"
    """`full`: the language side and the layers that merge patches for it, in float32; `lora`: an
    adapter on the language model."""
    learning_rate: float | None = None
    """Learning rate of AdamW; None: 5e-7, or 1e-5 of an adapter."""
    weight_decay: float = 0.01
    """Weight decay of AdamW, of matrices."""
    max_grad_norm: float = 1.0
    """Largest norm of the gradient."""
    lora_r: Annotated[int, Only(finetune="lora")] = 16
    """Rank of the adapter's matrices."""
    lora_alpha: Annotated[int, Only(finetune="lora")] = 32
    """The adapter is scaled by this over its rank."""
    micro_batch_size: int = 8
    """Responses that gradients are computed for at once; half of them where memory runs out."""
    offload: Literal["none", "optimizer"] = "none"
    """`optimizer`: gradients, moments and steps of AdamW are on the CPU, and the device holds
    the weights alone: 4 bytes a parameter instead of 16, and 20 in the memory of the CPU."""
    share_prefix: bool = True
    """Compute the vision features once a sample, and the prompt once a step for all rollouts and
    their log-probabilities. Results are the same but for rounding."""
    seed: int = 0
    """Seed of rollouts, of random labels and views, and of an adapter's first weights."""

    def __post_init__(self) -> None:
        """Refuse numbers with which nothing can be learned.

        Raises:
            UsageError: one of them is out of range.
        """
        counts = {name: getattr(self, name) for name in ("lora_r", "lora_alpha")}
        counts["micro_batch_size"] = self.micro_batch_size
        for name, value in counts.items():
            if value < 1:
                raise UsageError(f"{name}=…", expected="at least 1", found=str(value))
        for name in ("learning_rate", "weight_decay"):
            value = getattr(self, name)
            if value is not None and not 0.0 <= value <= 1.0:
                raise UsageError(f"{name}=…", expected="a number from 0 to 1", found=str(value))
        if not self.max_grad_norm > 0:
            raise UsageError(
                "max_grad_norm=…", expected="more than 0", found=str(self.max_grad_norm)
            )

    @property
    def rate(self) -> float:
        """`learning_rate`, or what `finetune` has where none is given."""
        usual = 5e-7 if self.finetune == "full" else 1e-5
        return usual if self.learning_rate is None else self.learning_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One step of the optimiser."""

    loss: float
    grad_norm: float
    """Norm of the gradient before it was clipped."""
    entropy: float
    """Mean entropy of the tokens that were learned from, in nats."""
    logp: Tensor
    """Log-probabilities of the tokens before the step (rows × tokens), a detached tensor."""
    rolled_back: bool
    """True if loss or gradient were no numbers: the step was not made."""


class AdaptationContext(Protocol):
    """A network while it learns from one request; its weights are put back afterwards."""

    def rollouts(self, number: int, *, temperature: float, name: str) -> list[ChatResponse]:
        """Return responses by the weights as they are now, drawn by seed, request and `name`."""

    def log_probs(self, responses: Sequence[ChatResponse], *, temperature: float) -> Tensor:
        """Return log-probabilities of responses by the first weights (rows × tokens)."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text, in which no special token is left."""

    def scored(
        self, responses: Sequence[ChatResponse], *, requests: Sequence[ChatRequest]
    ) -> Sequence[Any]:
        """Return rows as a loss of `step` sees them, by the weights as they are.

        Args:
            responses: One a row.
            requests: Prompt of each row.
        """

    def step(
        self,
        loss: Callable[[Any], Tensor],
        responses: Sequence[ChatResponse],
        *,
        temperature: float = 1.0,
        requests: Sequence[ChatRequest] | None = None,
    ) -> Update:
        """Make one step of the optimiser.

        Args:
            loss: A function from some rows (`harness.models.learning.rows.ScoredRows`) to a
                scalar; those of all rows add up to the loss.
            responses: One a row.
            temperature: Of the probabilities.
            requests: Prompt of each row; None: the context's own request.
        """

    def reset(self) -> None:
        """Put the weights back, and prove it.

        Raises:
            NotRestored: they are not what they were.
        """


class Adaptable(Protocol):
    """A network that can learn from one request at a time, behind its backend."""

    @property
    def chat(self) -> "Chat":
        """The backend that answers by the weights as they are."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds so far of rollouts, of updates and of putting weights back."""

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""

    def prepare(self) -> None:
        """Load the network, with weights that can learn.

        Raises:
            ModelError: nothing of it can.
        """

    def adapting(self, request: ChatRequest) -> AbstractContextManager[AdaptationContext]:
        """Enter a context in which the network learns from a request; afterwards it is reset."""


Conversation: TypeAlias = Generator[Sequence[ChatRequest] | Future[Any], Sequence[ChatResponse], T]
"""Yields requests, is sent one response a request, in order, and so on until it returns.

It yields a future to wait for work in another thread; then it is sent nothing, once that is done.
Other conversations go on meanwhile.
"""


class Chat(ABC):
    """A vision-language network behind one call. Derive a backend's class from it."""

    if TYPE_CHECKING:

        @property
        def batch_size(self) -> int:
            """Preferred number of requests at once."""

        @property
        def coordinates(self) -> Coordinates:
            """Meaning of the numbers that the network writes."""

    @abstractmethod
    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record."""

    @abstractmethod
    def generate(self, requests: Sequence[ChatRequest]) -> list[ChatResponse]:
        """Return one response a request, in order."""

    @abstractmethod
    def canvas(self, request: ChatRequest) -> tuple[int, int]:
        """Return (width, height) of the first medium as the network would see it."""

    @abstractmethod
    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text, for usage."""

    @property
    def opening(self) -> str:
        """Text that its chat template begins every response with, such as `<think>` and a newline.

        It stands in the text of responses too.
        """
        return ""

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text that is injected into a response, for `ChatRequest.written`.

        Empty: it continues from text (`ChatRequest.prefix`), if it does at all.
        """
        del text
        return ()

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of a response's tokens, up to its end token; empty as by `encode`."""
        del tokens
        return ""

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices that it computes on; see `Model.devices`."""
        return ()

    @property
    def turns(self) -> int:
        """Calls of `generate` that it takes at once; see `StagedModel.turns`."""
        return 1

    @property
    def rounds(self) -> int:
        """Number of batches to give `generate` at once; see `Model.rounds`."""
        return 1

    @property
    def greedy(self) -> bool:
        """Return True if a repeated request would get the same response."""
        return False

    @property
    def goes_on(self) -> bool:
        """Return True if it continues from the `prefix` of a request."""
        return False

    @property
    def wait_seconds(self) -> float | None:
        """Seconds that the network has waited so far; see `StagedModel.wait_seconds`."""
        return None

    @property
    def why_not_adaptable(self) -> str:
        """Reason why the network's weights cannot learn here."""
        return "a network that another program runs"

    def adaptable(self, settings: LearningSettings) -> Adaptable:
        """Return what lets the network learn from one request at a time.

        Raises:
            UsageError: it cannot.
        """
        del settings
        raise UsageError(
            "adaptation at test time",
            expected="a network in this process: backend=transformers",
            found=self.why_not_adaptable,
        )

    def prepare(self) -> None:  # noqa: B027
        """Load what is loaded when first used; see `Model.prepare`."""

    def halt(self) -> None:  # noqa: B027
        """Abandon the requests under way; see `StagedModel.halt`."""

    def prepare_next(  # noqa: B027
        self, requests: Sequence[ChatRequest], *, go_on: bool = False
    ) -> None:
        """Prepare the first inputs of the call with these requests.

        `go_on`: the call is `ConversingChat.converse`, which may begin with others than `generate`.
        """


class ConversingChat(Chat):
    """A chat that lets each conversation go on as soon as its own responses are there.

    Responses are those of `generate`. With any other chat conversations go turn by turn
    (`harness.models.multi_turn`).
    """

    @abstractmethod
    def converse_as_completed(
        self, conversations: Sequence[Conversation[T]], *, go_on: bool = False
    ) -> Iterator[tuple[int, T]]:
        """Yield the number of each conversation with what it returns, as soon as it does.

        `go_on`: each continues at once, even if few do; without it, requests may go as by
        `generate`.
        """

    def converse(self, conversations: Sequence[Conversation[T]]) -> list[T]:
        """Return what each conversation returns, in order."""
        ends = dict(self.converse_as_completed(conversations, go_on=True))
        return [ends[number] for number in range(len(conversations))]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict on one answer."""

    score: float | None
    """Score from 0 to 1; None by a rubric without a scale, where the text is the verdict."""
    text: str


class Judge(Protocol):
    """Judges free text by a rubric. A task names the rubric; the command brings the judge."""

    @property
    def name(self) -> str:
        """Model, prompt and temperature, for the record."""

    def judge(self, rubric: str, question: str, answer: str, ground_truth: str) -> Verdict:
        """Return the verdict on one answer."""


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

    A request has the text, and in `media` what it is about: `media[0].frame(k)` is a frame (height
    × width × 3 bytes, RGB), `len(media[0])` their number, `media[0].times()` their seconds.
    """

    def generate(self, requests: Sequence[ChatRequest]) -> Sequence[MaskResponse]:
        """One response a request, in order.

        Raises:
            OutOfMemory: the batch does not fit (or torch's own error); the engine tries halves.
        """
