"""A model as a composition: prompt → network → response → coordinates → segmenter → propagator.

    query ─request─▶ Chat ─response─▶ Prompt.parse ─▶ Canvas ─▶ Segmenter ─▶ Propagator ─▶ answer

Reading a response does not depend on who wrote it: `read` is used for the network's responses, for
stored ones, and for perfect ones that `write` wrote from the ground truth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Literal, Protocol, Self, TypeAlias

from harness.backend import Chat
from harness.chat import ChatRequest, Conversation
from harness.coordinates import Coordinates
from harness.errors import DataError, ParseError
from harness.frames import FramePolicy
from harness.media import Media
from harness.model import ReaderPart
from harness.models.answers import MASKED, Pending, box_answer, combine_answers, objects_answer
from harness.models.canvas import Canvas
from harness.models.chat_result import ChatResult
from harness.models.default_parts import missing_parts
from harness.models.factory import at_least
from harness.models.frame_selection import choose_frames, frames_shown, pixel_budget
from harness.models.grammar import Item, ParseResult, Prompt, several_answers
from harness.models.multi_turn import ConversingModel
from harness.models.places import (
    refuse_other_meaning,
    refuse_other_objects,
    refuse_other_scale,
)
from harness.models.questions import stated_count
from harness.models.response_writer import key_frame_of, objects_of
from harness.models.retry import (
    RetryRequest,
    merge_second,
    retry_requests,
    retry_unreadable,
)
from harness.models.tracks import joint_masks, prompts_of
from harness.models.vendors.settings import VendorSettings
from harness.responses import Which, storable
from harness.segmentation import Propagator, Segmenter, settings
from harness.stated.corrections import answer_lines
from harness.thoughts import after_thought, reasoning
from harness.types import (
    Answer,
    AnswerForm,
    Call,
    Failure,
    FailureKind,
    Parsed,
    ParsedObject,
    Prediction,
    Query,
    Usage,
)

KeyFrame: TypeAlias = Literal["first", "middle", "named"]
"""The frame of a video that is marked: the first, the middle one, or the one a response names."""

LOCATED = MASKED | {AnswerForm.BOXES, AnswerForm.POINTS, AnswerForm.COUNT}
"""Forms that are answered with places in an image; the others are answered in words."""


class AnswerPrompt(Protocol):
    """Asks questions that are answered in words, and reads the answers (ParseError if none)."""

    @property
    def forms(self) -> frozenset[AnswerForm]: ...  # noqa: D102

    @property
    def counts(self) -> Which: ...  # noqa: D102

    def render(self, query: Query, form: AnswerForm) -> str: ...  # noqa: D102

    def read(self, query: Query, form: AnswerForm, response: str) -> Answer: ...  # noqa: D102

    def write(self, form: AnswerForm, answer: Answer) -> str: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class PromptedModel(ConversingModel[ChatResult]):
    """A vision-language network that answers with places or words, and the perception after it.

    One request a form of answer. An image is shown whole. Of a video, a question for places
    shows the key frame alone; with `keyframe="named"` it shows `frames` frames with their numbers
    and the response must begin with `<frame>k</frame>`. A question in words shows `frames` frames,
    evenly spread. Whatever the rule, a response to a video may name its frame in this way.

    Masks are made on the original image, one prompt an object, and joined by OR; in a video
    every object is propagated from the key frame both ways first. A response without objects is
    NO_TARGET (with empty masks, no boxes, or a count of 0); one outside the grammar is a failure.
    """

    name: str
    prompt: Prompt
    words: AnswerPrompt
    segmenter: Segmenter
    propagator: Propagator
    keyframe: KeyFrame = "middle"
    frames: int | FramePolicy = 8
    """Number of frames, evenly spread, or another rule, which may limit their size too."""
    max_new_tokens: int = 1024
    system: str | None = None
    coordinates: Coordinates | None = None
    """Meaning of the numbers in the prompt's grammar; None: the network's own."""
    words_resize: tuple[int, int] | None = None
    """(width, height) to squash images to for questions in words; None: the processor's rule."""
    marks: tuple[str, ...] = ()
    """Special tokens that the prompt's wording has."""
    counts_in_words: bool = False
    """Read a count from words such as "There are 9 dogs." where a response has no places."""
    vendor: VendorSettings | None = None
    """The vendor's settings that it was built with, for the record."""
    retry: bool = False
    """Send a second request for a response that cannot be read (`retry`), if the backend
    continues from a prefix."""

    def __post_init__(self) -> None:
        for setting in ("frames", "max_new_tokens", "batch_size"):
            value = getattr(self, setting)
            if isinstance(value, int):
                at_least(self.name, 1, **{setting: value})

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record: every setting, and the prompt as it is sent."""
        return {
            "name": self.name,
            "chat": dict(self.chat.describe()),
            "prompt": self.prompt.name,
            "prompt_text": self.prompt.render("QUESTION"),
            "resize": self.prompt.resize and list(self.prompt.resize),
            "words_resize": self.words_resize and list(self.words_resize),
            "system": self.system,
            "coordinates": self.meaning,
            "segmenter": settings(self.segmenter),
            "propagator": settings(self.propagator),
            "keyframe": self.keyframe,
            "frames": self.frames if isinstance(self.frames, int) else str(self.frames),
            "max_new_tokens": self.max_new_tokens,
            "batch_size": self.batch_size,
            **({"retry": True} if self.asks_again else {}),
            **({} if self.vendor is None else {"vendor": self.vendor.describe()}),
        }

    @property
    def forms(self) -> frozenset[AnswerForm]:
        """Forms of answer that it can give."""
        return LOCATED | self.words.forms

    @property
    def missing_parts(self) -> Mapping[AnswerForm, str]:
        """Forms with masks, without a segmenter or, of videos, a propagator."""
        return missing_parts(self.segmenter, self.propagator)

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices of its parts."""
        return tuple(device for part in self._parts for device in part.devices)

    def prepare(self) -> None:
        """Load all parts, so that a failure to load fails no sample."""
        for part in self._parts:
            part.prepare()

    def with_perception(self, segmenter: Segmenter, propagator: Propagator) -> Self:
        """Return the same model with another segmenter and propagator."""
        return replace(self, segmenter=segmenter, propagator=propagator)

    def with_part(self, part: ReaderPart, other: "PromptedModel") -> Self:
        """Return the same model with one part of another."""
        if part == "coordinates":
            return replace(self, coordinates=other.meaning)
        if part == "segmenter":
            return replace(self, segmenter=other.segmenter)
        return replace(self, propagator=other.propagator)

    def requests(self, query: Query) -> tuple[ChatRequest, ...]:
        """Return the requests to the network, one a form of answer.

        Raises:
            UsageError: this model cannot be asked for such an answer.
        """
        asked = (self._request(query, form) for form in query.forms)
        return tuple(request.with_generation(query.generation) for request in asked)

    def looks_at(self, query: Query) -> tuple[tuple[int, ...], ...]:
        """Return the frames of each medium that the network sees, for the engine to decode ahead.

        Raises:
            UsageError: this model cannot be asked for such an answer.
        """
        return frames_shown(query, self.requests(query))

    def reads_pixels(self, query: Query) -> bool:
        """Return True if the network's backend reads pixels, or a part that makes masks does."""
        perception = (self.segmenter, self.propagator) if MASKED.intersection(query.forms) else ()
        return any(part.reads_pixels for part in (self.chat, *perception))

    @property
    def wait_seconds(self) -> float | None:
        """Seconds that the network has waited for images so far; None: not known."""
        return self.chat.wait_seconds

    @property
    def asks_again(self) -> bool:
        """Return True if second tries are set and the backend continues from a prefix."""
        return self.retry and self.chat.goes_on

    def prepare_next(self, queries: Sequence[Query]) -> None:
        """Begin to make the first inputs of `generate` for these queries."""
        self.chat.prepare_next([one for query in queries for one in self.requests(query)])

    def generate(self, queries: Sequence[Query]) -> list[ChatResult]:
        """Ask the network: the first stage of `predict`."""
        requests = [self.requests(query) for query in queries]
        responses = self.chat.generate([one for several in requests for one in several])
        if self.asks_again:
            tries = [
                one
                for query, several in zip(queries, requests, strict=True)
                for one in self._retry_requests(query, several)
            ]
            responses = retry_unreadable(self.chat, tries, responses)
        output = iter(responses)
        return [
            ChatResult.from_calls(query, several, [next(output) for _ in several])
            for query, several in zip(queries, requests, strict=True)
        ]

    def _goes_on(self, queries: Sequence[Query]) -> bool:
        return False

    @property
    def _parts(self) -> tuple[Chat | Segmenter | Propagator, ...]:
        return self.chat, self.segmenter, self.propagator

    def conversation(self, query: Query) -> Conversation[ChatResult]:
        """Yield the requests of one query, and second ones for responses that cannot be read."""
        requests = self.requests(query)
        responses = list((yield requests))
        if self.asks_again:
            tries = self._retry_requests(query, requests)
            again = retry_requests(tries, responses, greedy=self.chat.greedy)
            if again:
                responses = merge_second(tries, responses, again, (yield list(again.values())))
        return ChatResult.from_calls(query, requests, responses)

    def _retry_requests(self, query: Query, requests: Sequence[ChatRequest]) -> list[RetryRequest]:
        return [
            RetryRequest(
                request,
                partial(self._is_readable, query, form),
                request.frames[0] if self.must_name(query, form) else (),
            )
            for form, request in zip(query.forms, requests, strict=True)
        ]

    def _is_readable(self, query: Query, form: AnswerForm, response: str) -> bool:
        text = storable(response)
        try:
            if form not in LOCATED:
                self.words.read(query, form, text)
                return True
            self._read_places(query, form, text)
        except ParseError:
            is_count = form is AnswerForm.COUNT and self.counts_in_words
            return is_count and stated_count(text, query.text) is not None
        return True

    def _counted(self, count: int) -> Answer:
        """Return the answer of a count in words.

        Raises:
            ParseError: this model counts by the places of its grammar, as its authors read it.
        """
        if not self.counts_in_words:
            raise ParseError(
                "count",
                expected="places, which are counted",
                found=f"{count} in words",
                fix="qwen_vl(backend=stored,prompt=locate) reads counts in words.",
            )
        return Answer(count=count)

    def objects(self, query: Query, result: ChatResult) -> int:
        """Return the most objects that have masks at once: forms are propagated one by one."""
        output = zip(query.forms, result.responses[-len(query.forms) :], strict=False)
        return max(
            (self._count_objects(form, response.text) for form, response in output), default=0
        )

    def begin(self, query: Query, result: ChatResult) -> Pending[Prediction]:
        """Read responses and segment, the second stage; return a function that is the third."""
        reading = self.reading(query, [response.text for response in result.responses])
        return lambda: result.with_usage(reading())

    def read(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Prediction:
        """Read responses, one a form of the query, in the order of its forms.

        The text is read as it can be stored, so that reading it again from a record gives the same
        answer. A product of forms is answered as far as its responses can be read; notes name the
        others.
        """
        return self.reading(query, responses, calls)()

    def reading(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Pending[Prediction]:
        """Read and segment at once; return a function that propagates and gives the result."""
        texts = tuple(storable(response) for response in responses)
        parts: list[Pending[Answer]] = []
        parsed: list[Parsed] = []
        problems: list[str] = []
        notes: list[str] = []
        if len(texts) != len(query.forms):
            problems = [f"expected {len(query.forms)} responses, found {len(texts)}"]
        for form, text in zip(query.forms, texts, strict=False):
            try:
                part, read, repairs = self._part(query, form, text, calls)
            except ParseError as error:
                problems.append(f"{form}: {error}")
                parsed.append(Parsed(form=form, error=storable(str(error), 2000)))
            else:
                parts.append(part)
                parsed.append(read)
                which: Which = "first" if form in LOCATED else self.words.counts
                said = after_thought(text)
                lines = 0 if form in LOCATED else len(answer_lines(said))
                notes.extend((*repairs, *several_answers(said.count("<answer>"), which)))
                notes.extend(several_answers(lines, "last"))
        unread = len(problems) >= len(query.forms) or len(texts) != len(query.forms)
        failure = Failure(FailureKind.PARSE, "; ".join(problems)) if unread else None
        usage = self._usage(query, texts)
        return lambda: Prediction(
            query_id=query.id,
            answer=None if unread else combine_answers(parts),
            failure=failure,
            responses=texts,
            parsed=tuple(parsed),
            usage=usage,
            notes=(*notes, *([] if unread else problems)),
        )

    def write(self, query: Query, answer: Answer) -> tuple[str, ...]:
        """Return the responses that `read` reads as `answer`: its inverse, up to rounding.

        A mask is written as one object an instance, or a connected part where the answer does not
        tell instances apart; COUNT as so many boxes. A track is written for the key frame of the
        rule; if it is empty there, for the frame where it is largest, which the response then
        names.
        """
        return tuple(
            self._located_text(query, form, answer)
            if form in LOCATED
            else self.words.write(form, answer)
            for form in query.forms
        )

    def _request(self, query: Query, form: AnswerForm) -> ChatRequest:
        located = form in LOCATED
        shown = self._shown_frames(query, located=located)
        named = self.must_name(query, form)
        return ChatRequest(
            key=query.id if len(query.forms) == 1 else f"{query.id}:{form}",
            text=self.prompt.render(query.text, numbered=shown[0] if named else ())
            if located
            else self.words.render(query, form),
            marks=self.marks if located else (),
            media=query.media,
            frames=shown,
            resize=self.prompt.resize
            if located
            else self.words_resize or pixel_budget(query, self.frames),
            system=self.system,
            max_new_tokens=self.max_new_tokens,
        )

    def _shown_frames(self, query: Query, *, located: bool) -> tuple[tuple[int, ...], ...]:
        if located and not query.media:
            raise DataError(
                f"query {query.id}", expected="an image or a video to find places in", found="none"
            )
        shown = [choose_frames(media, self.frames) for media in query.media]
        if located and self.keyframe != "named":
            shown[0] = (self._key_frame(query.media[0]),)
        return tuple(shown)

    def must_name(self, query: Query, form: AnswerForm) -> bool:
        """Return True if a response that names no frame cannot be read."""
        return form in LOCATED and self.keyframe == "named" and len(query.media[0]) > 1

    def _key_frame(self, media: Media) -> int:
        return len(media) // 2 if self.keyframe == "middle" else 0

    @property
    def meaning(self) -> Coordinates:
        """Meaning of the numbers in responses about places."""
        return self.coordinates or self.chat.coordinates

    def canvas(self, request: ChatRequest) -> Canvas:
        """Return the canvas of the numbers in a response to this request."""
        return Canvas.for_image(
            self.meaning, request.media[0].size, seen=lambda: self.chat.canvas(request)
        )

    def _canvas(self, query: Query, form: AnswerForm, calls: Sequence[Call] = ()) -> Canvas:
        """Return the canvas in the record of the calls, or else this model's own."""
        key = "" if len(query.forms) == 1 else f":{form}"
        own = (call.request for call in calls if call.key in (key, f"{key}:again"))
        seen = [request.shown[0].canvas for request in own if request.shown]
        if seen and (size := seen[-1]) is not None:
            return Canvas.for_image(self.meaning, query.size, seen=lambda: size)
        return self.canvas(self._request(query, form))

    def _usage(self, query: Query, responses: Sequence[str]) -> Usage:
        shown = (self._shown_frames(query, located=form in LOCATED) for form in query.forms)
        return Usage(
            completion_tokens=sum(map(self.chat.count_tokens, responses)),
            reasoning_tokens=sum(
                self.chat.count_tokens(reasoning(response)) for response in responses
            ),
            frames=sum(len(frames) for media in shown for frames in media),
        )

    def _part(
        self, query: Query, form: AnswerForm, response: str, calls: Sequence[Call]
    ) -> tuple[Pending[Answer], Parsed, tuple[str, ...]]:
        if form not in LOCATED:
            answer = self.words.read(query, form, response)
            return lambda: answer, Parsed(form=form), ()
        try:
            output, start, canvas = self._read_places(query, form, response, calls)
        except ParseError:
            count = stated_count(response, query.text) if form is AnswerForm.COUNT else None
            if count is None:
                raise
            counted = self._counted(count)
            return lambda: counted, Parsed(form=form), ("the count is read from words",)
        items = [canvas.to_image(item) for item in output.items]
        parsed = Parsed(
            form=form,
            objects=tuple(map(_to_parsed, items)),
            phrase=storable(output.phrase),
            frame=start if len(query.media[0]) > 1 else None,
            outside=sum(map(canvas.count_outside, output.items)),
            repairs=output.notes,
        )
        return self._locate(query, form, start, items, output.phrase), parsed, output.notes

    def _read_places(
        self, query: Query, form: AnswerForm, response: str, calls: Sequence[Call] = ()
    ) -> tuple[ParseResult, int, Canvas]:
        """Return what a response says about places, in which frame, and the canvas of its numbers.

        Raises:
            ParseError: it is not in the grammar, or its places are not what was asked for.
        """
        output = self.prompt.parse(response)
        if output.error is not None:
            raise ParseError(output.error)
        start, canvas = self._start(query, form, output), self._canvas(query, form, calls)
        if output.items:
            refuse_other_scale(output.items, canvas)
            refuse_other_meaning(after_thought(response), canvas)
            refuse_other_objects(query.text, output.items)
        return output, start, canvas

    def _locate(
        self, query: Query, form: AnswerForm, start: int, items: Sequence[Item], phrase: str
    ) -> Pending[Answer]:
        if form not in MASKED:
            return box_answer(form, items, phrase=phrase)
        media, nothing = query.media[0], not items and not phrase
        apart = [[one] for one in items] if query.instances and items else [items]
        each = [
            cache(joint_masks(self.segmenter, self.propagator, media, start, one, phrase=phrase))
            for one in apart
        ]
        return objects_answer(query, form, items, each, nothing=nothing)

    def _count_objects(self, form: AnswerForm, response: str) -> int:
        """Return the number of objects in a response that masks are made of."""
        if form not in MASKED:
            return 0
        try:
            output = self.prompt.parse(storable(response))
        except ParseError:
            return 0
        return len(prompts_of(output.items, output.phrase)) if output.ok else 0

    def _start(self, query: Query, form: AnswerForm, output: ParseResult) -> int:
        media = query.media[0]
        if output.frame is not None:
            if output.frame >= len(media):
                raise ParseError(
                    "frame", expected=f"0 to {len(media) - 1}", found=str(output.frame)
                )
            return output.frame
        if self.must_name(query, form) and (output.items or output.phrase):
            raise ParseError("response", expected="<frame>k</frame> at its beginning", found="none")
        return self._key_frame(media)

    def _located_text(self, query: Query, form: AnswerForm, answer: Answer) -> str:
        rule = self._key_frame(query.media[0])
        start = key_frame_of(answer, rule)
        items = [] if answer.no_target else objects_of(form, answer, start, query.size)
        canvas = self._canvas(query, form)
        named = start != rule or self.must_name(query, form)
        return self.prompt.write(
            [canvas.to_canvas(item._replace(phrase=query.text)) for item in items],
            frame=start if named else None,
        )


def _to_parsed(item: Item) -> ParsedObject:
    """Return an object for the record; `item` is in pixels of the image."""
    return ParsedObject(
        box=item.box,
        positive=tuple(point for point in (item.point, item.second) if point is not None),
        negative=() if item.negative is None else (item.negative,),
        phrase=storable(item.phrase),
    )
