"""Make the requests of a prompted model: which frames a VLM is shown, at what size, and the text.

A query becomes one `ChatRequest` for each form of answer; `canvas` says in which pixels or shares
the numbers of its response are. `PromptedReader` reads the responses.
"""

from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias

from harness.chat import ChatRequest
from harness.coordinates import Coordinates
from harness.errors import DataError, UsageError
from harness.frames import FramePolicy
from harness.media import Media
from harness.models.answers import MASKED
from harness.models.canvas import Canvas
from harness.models.chat_result import ChatResult
from harness.models.factory import at_least
from harness.models.frame_selection import (
    choose_frames,
    frames_shown,
    pixel_budget,
    resample,
    told_times,
)
from harness.models.grammar import Prompt
from harness.models.multi_turn import ConversingModel
from harness.models.vendors.settings import VendorSettings
from harness.responses import Which
from harness.segmentation import Propagator, Segmenter
from harness.types import Answer, AnswerForm, Query

KeyFrame: TypeAlias = Literal["first", "middle", "named"]
"""The frame of a video in which objects are located: first, middle, or named by the response."""

LOCATED = MASKED | {AnswerForm.BOXES, AnswerForm.POINTS, AnswerForm.COUNT}
"""Forms that are answered with places in an image; the others are answered in words."""


class AnswerPrompt(Protocol):
    """Asks questions that are answered in words, and reads the answers (ParseError if none)."""

    @property
    def forms(self) -> frozenset[AnswerForm]: ...  # noqa: D102

    @property
    def answer_tag(self) -> Which: ...  # noqa: D102

    def render(self, query: Query, form: AnswerForm) -> str: ...  # noqa: D102

    def read(self, query: Query, form: AnswerForm, response: str) -> Answer: ...  # noqa: D102

    def write(self, form: AnswerForm, answer: Answer) -> str: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class PromptedRequests(ConversingModel[ChatResult]):
    """The parts and settings of a `PromptedModel`, and the requests that it makes for a query.

    There is one request for each form of answer. An image is shown whole. A question for places in
    a video shows the key frame alone; with `keyframe="named"` it shows `frames` frames with their
    numbers, and the response must begin with `<frame>k</frame>`. A question in words shows
    `frames` frames, evenly spread. Any response about a video may name its frame in this way.
    """

    name: str
    prompt: Prompt
    words: AnswerPrompt
    segmenter: Segmenter
    propagator: Propagator
    keyframe: KeyFrame = "middle"
    frames: int | FramePolicy = 8
    """Number of frames, evenly spread, or a rule that chooses them and may limit their size."""
    max_new_tokens: int = 1024
    system: str | None = None
    coordinates: Coordinates | None = None
    """Meaning of the numbers in the prompt's grammar; None: the network's own."""
    words_resize: tuple[int, int] | None = None
    """(width, height) to squash images to for questions in words; None: the processor's rule."""
    marks: tuple[str, ...] = ()
    """Special tokens that the prompt's text contains."""
    counts_in_words: bool = False
    """Read a count from words such as "There are 9 dogs." where a response has no places."""
    vendor: VendorSettings | None = None
    """The vendor's settings that this model was built with, for the record."""
    retry: bool = False
    """Send a second request for a response that cannot be read (`retry`), if the backend
    continues from a prefix."""

    def __post_init__(self) -> None:
        for setting in ("frames", "max_new_tokens", "batch_size"):
            value = getattr(self, setting)
            if isinstance(value, int):
                at_least(self.name, 1, **{setting: value})

    def requests(self, query: Query) -> tuple[ChatRequest, ...]:
        """Return the requests to the network, one a form of answer.

        Raises:
            UsageError: this model cannot be asked for such an answer.
        """
        requests = (self._request(query, form) for form in query.forms)
        return tuple(request.with_generation(query.generation) for request in requests)

    def looks_at(self, query: Query) -> tuple[tuple[int, ...], ...]:
        """Return the frames of each medium that the network sees, for the engine to decode ahead.

        Raises:
            UsageError: this model cannot be asked for such an answer.
        """
        return frames_shown(query, self.requests(query))

    def _request(self, query: Query, form: AnswerForm) -> ChatRequest:
        """Return the request for one form: about places, or about an answer in words."""
        located = form in LOCATED
        if located:
            self._check_meaning(form)
        frames = self._shown_frames(query, located=located)
        request = ChatRequest(
            key=query.id if len(query.forms) == 1 else f"{query.id}:{form}",
            text="",
            media=query.media,
            frames=frames,
            system=self.system,
            max_new_tokens=self.max_new_tokens,
        )
        if located:
            numbered = frames[0] if self.must_name(query, form) else ()
            return replace(
                request,
                text=self.prompt.render(query.text, numbered=numbered),
                marks=self.marks,
                resize=self.prompt.resize,
                resample="bilinear",
            )
        return replace(
            request,
            text=self.words.render(query, form),
            times=told_times(query, self.frames),
            resize=self.words_resize or pixel_budget(query, self.frames),
            resample="bilinear" if self.words_resize else resample(self.frames),
        )

    def _check_meaning(self, form: AnswerForm) -> None:
        """Raise UsageError if the meaning of the response's numbers is unknown; name the form."""
        try:
            _ = self.meaning
        except UsageError as error:
            raise UsageError(f"a question that asks for {form}: {error}") from error

    def _shown_frames(self, query: Query, *, located: bool) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of the frames to show, for each medium of the query.

        Raises:
            DataError: the question is about places, and the query has no media.
        """
        if located and not query.media:
            raise DataError(
                f"query {query.id}", expected="an image or a video to find places in", found="none"
            )
        frames = [choose_frames(media, self.frames) for media in query.media]
        if located and self.keyframe != "named":
            frames[0] = (self._key_frame(query.media[0]),)
        return tuple(frames)

    def must_name(self, query: Query, form: AnswerForm) -> bool:
        """Return True if the response has to begin with `<frame>k</frame>`."""
        return form in LOCATED and self.keyframe == "named" and len(query.media[0]) > 1

    def _key_frame(self, media: Media) -> int:
        """Return the number of the frame in which a request locates objects."""
        return len(media) // 2 if self.keyframe == "middle" else 0

    @property
    def meaning(self) -> Coordinates:
        """Meaning of the numbers in responses about places, such as pixels or normalized_1000.

        Raises:
            UsageError: neither the prompt's grammar nor the network's backend states it.
        """
        stated = self.coordinates or self.chat.coordinates
        if stated is None:
            raise UsageError(
                f"backend of {self.name}",
                expected="coordinates=…, what the numbers of its boxes mean, such as pixels "
                "(Qwen2.5-VL) or normalized_1000 (Qwen3-VL)",
                found="none, and no folder of the network's files",
                fix="Say which, or give tokenizer=FOLDER.",
            )
        return stated

    def canvas(self, request: ChatRequest) -> Canvas:
        """Return the canvas of the numbers in a response to this request."""
        return Canvas.for_image(
            self.meaning, request.media[0].size, seen=lambda: self.chat.canvas(request)
        )
