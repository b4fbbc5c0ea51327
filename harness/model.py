"""Base classes of models, and protocols of readers of responses: all that the engine calls.

A model takes queries and returns predictions, in pixels of the original image. `harness.run` calls
it; models in `models/` and in plugins derive from `Model`, or from `StagedModel` to have language,
segmentation and propagation run side by side.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

from harness.segmentation import Propagator, Segmenter
from harness.spec import Spec
from harness.types import Answer, AnswerForm, Call, Prediction, Query


class Model(ABC):
    """Base class of models. A model sees only queries, never a target.

    Derive a model from this class: what it does not define has the default below, and the engine
    asks a model for nothing that is not declared here or in `StagedModel`.
    """

    built_from: Spec | None = None
    """The SPEC that it was built from; None: your program made it."""

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
        """Forms of answer that need a part (a segmenter, say) that was not chosen, with the remedy.

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
    def at_once(self) -> int:
        """Number of queries that it works on at the same time."""
        return self.batch_size

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

    def reads_pixels(self, query: Query) -> bool:
        """Return False if the model needs no decoded frames: it sends files or reads only sizes."""
        del query
        return True

    def prepare(self) -> None:  # noqa: B027 - nothing to load is the usual case
        """Load what is loaded once, before the first batch.

        An exception (weights cannot be loaded, …) ends the run instead of failing each sample.
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
        results = self.generate(queries)
        return [self.begin(query, result)() for query, result in zip(queries, results, strict=True)]

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

        Called in a separate thread while `generate` works.
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
            responses: One for each form of answer.
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
