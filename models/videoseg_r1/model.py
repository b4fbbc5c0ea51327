"""The plugin `videoseg_r1`: search the frame of a video, reason about it, segment and propagate.

    query ─▶ Sampler ─▶ target frame, key segment ─▶ reasoner ─▶ segmenter ─▶ propagator ─▶ masks

The sampler's votes come from a VLM, `voters`, which may be the reasoner's own. An image needs no
search.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from harness import plugins
from harness.backend import Chat, ConversingChat
from harness.chat import ChatRequest, Conversation
from harness.models.answers import Pending
from harness.models.backends.sampling import check_settings
from harness.models.chat_result import ChatResult
from harness.models.composition import Composition
from harness.models.factory import at_least
from harness.models.frame_selection import frames_shown
from harness.models.multi_turn import converse
from harness.models.pipeline import PromptedModel
from harness.models.prompted_requests import LOCATED
from harness.models.prompts import Wording
from harness.models.questions import Questions
from harness.models.response_writer import key_frame_of, objects_of
from harness.models.videoseg_r1.cues import Cues
from harness.models.videoseg_r1.drawing import Drawing
from harness.models.videoseg_r1.frame_display import Beside, FrameDisplay
from harness.models.videoseg_r1.frame_search import (
    first_turn,
    is_looked_for,
    search_frames,
    searched,
    with_frame_names,
)
from harness.models.videoseg_r1.grammar import Prompt
from harness.models.videoseg_r1.negatives import boxes_filled, with_negatives
from harness.models.videoseg_r1.references import Strategy, spread
from harness.models.videoseg_r1.sampler import KeyChoice, Sampler
from harness.models.visionreasoner.grammar import CANVAS
from harness.options import Carried, Only, with_options
from harness.responses import storable
from harness.segmentation import Propagator, Segmenter, settings
from harness.spec import Spec
from harness.types import Answer, AnswerForm, Call, Prediction, Query

CONTEXT = (280, 280)
"""(width, height) in pixels of all frames but the target: 100 tokens of Qwen2.5-VL, not 900."""


@dataclass(frozen=True, kw_only=True)
class VideoSegR1(PromptedModel):
    """A `PromptedModel` whose sampler first chooses the frame of a video to locate objects in.

    Questions in words and questions about an image have no search. The searches of all queries of a
    batch run side by side. A prediction's responses are those of the sampler, then one for each
    form of answer, which begins with `<frame>k</frame>`; `read` needs only the latter.
    """

    voters: Chat
    """The VLM that votes in the search; the same object as `chat` if it also reasons."""
    sampler: Sampler
    showing: FrameDisplay
    """Numbers and sizes of the frames in requests."""

    def describe(self) -> Mapping[str, object]:
        """Return plain data for the record: every setting, and the prompts as they are sent."""
        return {
            **super().describe(),
            "voters": dict(self.voters.describe()),
            "sampler": asdict(self.sampler),
            "showing": asdict(self.showing),
            "segmenter": _segmenter_settings(self.segmenter),
        }

    @property
    def turns(self) -> int:
        """Number of batches that both VLMs can hold at once."""
        return min(super().turns, self.voters.turns)

    @property
    def wait_seconds(self) -> float | None:
        """Seconds that both VLMs have been idle so far; None if one does not report it."""
        if self.voters is self.chat:
            return super().wait_seconds
        seconds = [vlm.wait_seconds for vlm in (self.voters, self.chat)]
        return None if None in seconds else sum(filter(None, seconds))  # `filter` for mypy

    def halt(self) -> None:
        """Cancel the requests to the VLMs."""
        super().halt()
        self.voters.halt()

    def prepare_next(self, queries: Sequence[Query]) -> None:
        """Start to prepare the frames of the first requests.

        These are the votes of the searches' first turns. A search without votes has its result at
        once, and then the first requests are the reasoner's.
        """
        turns = [self._first_turn(query) if is_looked_for(query) else None for query in queries]
        # a turn is requests for votes, the result of a search without votes, or None: no search
        votes = [
            request for turn in turns if not isinstance(turn, KeyChoice | None) for request in turn
        ]
        if votes and not self._is_one_conversation:
            self.voters.prepare_next(votes, go_on=isinstance(self.voters, ConversingChat))
            return
        first = [
            self.reasoner_requests(query, turn) if isinstance(turn, KeyChoice | None) else turn
            for query, turn in zip(queries, turns, strict=True)
        ]
        goes_on = self._is_one_conversation and any(map(is_looked_for, queries))
        self.chat.prepare_next(
            [request for requests in first for request in requests], go_on=goes_on
        )

    def generate(self, queries: Sequence[Query]) -> list[ChatResult]:
        """Search the frames, and send the reasoner's requests.

        If voting and reasoning are one conversation, the reasoner begins for each query when its
        search has ended; otherwise all searches end first, and all queries reason in one call.
        """
        if not any(map(is_looked_for, queries)):
            return super().generate(queries)
        if self._is_one_conversation:
            return converse(self.chat, [self.conversation(query) for query in queries])
        results = search_frames(
            queries, sampler=self.sampler, showing=self.showing, voters=self.voters
        )
        requests = [
            self.reasoner_requests(query, result.choice if result else None)
            for query, result in zip(queries, results, strict=True)
        ]
        flat = [request for query_requests in requests for request in query_requests]
        output = iter(self.chat.generate(flat))
        return [
            with_frame_names(
                query, query_requests, tuple(next(output) for _ in query_requests), result
            )
            for query, query_requests, result in zip(queries, requests, results, strict=True)
        ]

    @property
    def by_sample(self) -> bool:
        """True if each query proceeds by itself; separate voters vote for a batch at once."""
        return self._is_one_conversation and super().by_sample

    def _goes_on(self, queries: Sequence[Query]) -> bool:
        return any(map(is_looked_for, queries))

    @property
    def _is_one_conversation(self) -> bool:
        """True if one network votes and reasons, and schedules each query's turns by itself.

        Without such scheduling, votes and reasoning would share calls, and an ablation that swaps
        the images of a call would exchange one for the other.
        """
        return self.voters is self.chat and isinstance(self.chat, ConversingChat)

    @property
    def _parts(self) -> tuple[Chat | Segmenter | Propagator, ...]:
        return (*super()._parts, self.voters)

    def conversation(self, query: Query) -> Conversation[ChatResult]:
        """Yield the votes of the search, if there is one, and then the reasoner's requests."""
        if not is_looked_for(query):
            return (yield from super().conversation(query))
        result = yield from searched(query, self.sampler, self.showing)
        requests = self.reasoner_requests(query, result.choice)
        responses = yield requests
        return with_frame_names(query, requests, tuple(responses), result)

    def looks_at(self, query: Query) -> tuple[tuple[int, ...], ...]:
        """Return the frames of the first requests, for the engine to decode ahead.

        Raises:
            UsageError: this model does not give such an answer.
        """
        if not is_looked_for(query):
            return super().looks_at(query)
        turn = self._first_turn(query)
        return frames_shown(
            query, self.reasoner_requests(query, turn) if isinstance(turn, KeyChoice) else turn
        )

    def reasoner_requests(
        self, query: Query, choice: KeyChoice | None, references: Sequence[int] | None = None
    ) -> tuple[ChatRequest, ...]:
        """Return the reasoner's requests, one for each form of answer.

        Args:
            query: The question.
            choice: Key segment and target frame of a video; None: an image.
            references: Numbers of the reference frames; None: those of the strategy.
        """
        requests = self.requests(query)
        if choice is None:
            return requests
        return tuple(
            self.showing.reasoner_request(request, choice, references)
            if form in LOCATED
            else request
            for form, request in zip(query.forms, requests, strict=True)
        )

    def training_requests(
        self, query: Query, answer: Answer, *, seed: int
    ) -> tuple[ChatRequest, ...]:
        """Return the reasoner's requests for training, one for each form, with random frames.

        Raises:
            UsageError: this model does not give such an answer.
            ParseError: no frame shows a target.
        """
        return self.drawn_requests(query, answer, Drawing(seed=seed, delta=self.sampler.delta))

    def drawn_requests(
        self, query: Query, answer: Answer, drawing: Drawing
    ) -> tuple[ChatRequest, ...]:
        """Return the reasoner's requests for the frames that `drawing` draws from a video."""
        if not is_looked_for(query):
            return self.requests(query)
        choice, references = drawing.draw(query, answer)
        references_shown = spread(references, self.showing.reference_frames)
        return self.reasoner_requests(query, choice, references_shown)

    def training_responses(
        self, query: Query, answer: Answer, requests: Sequence[ChatRequest]
    ) -> tuple[str, ...]:
        """Return the responses that training teaches, in the target frames of `requests`.

        Unlike those of `write` they do not name the frame, because the request shows it.
        """
        return tuple(
            self._located_text(query, form, answer, frame=request.frames[0][0])
            if form in LOCATED
            else self.words.write(form, answer)
            for form, request in zip(query.forms, requests, strict=True)
        )

    def reading(
        self, query: Query, responses: Sequence[str], calls: Sequence[Call] = ()
    ) -> Pending[Prediction]:
        """Parse the last responses, one for each form; earlier ones are votes of the sampler.

        Votes are recorded and their tokens counted, but they do not change the answer.
        """
        n_votes = max(0, len(responses) - len(query.forms))
        reading = super().reading(query, responses[n_votes:], calls)
        votes = tuple(storable(response) for response in responses[:n_votes])
        vote_tokens = sum(map(self.voters.count_tokens, votes))

        def read_answer() -> Prediction:
            output = reading()
            tokens = output.usage.completion_tokens + vote_tokens
            return replace(
                output,
                responses=(*votes, *output.responses),
                usage=replace(output.usage, completion_tokens=tokens),
            )

        return read_answer

    def _first_turn(self, query: Query) -> Sequence[ChatRequest] | KeyChoice:
        """Return the first requests of a query's search, or its result if it needs none."""
        return first_turn(query, sampler=self.sampler, showing=self.showing)

    def _located_text(
        self, query: Query, form: AnswerForm, answer: Answer, *, frame: int | None = None
    ) -> str:
        """Return the response that names the objects of `answer`, with negative points.

        With `frame`, the objects are those of that frame, and the response does not name it.
        """
        key_frame = self._key_frame(query.media[0])
        start = key_frame_of(answer, key_frame) if frame is None else frame
        items = [] if answer.no_target else objects_of(form, answer, start, query.size)
        masks = answer.masks
        target = boxes_filled(items, query.size) if masks is None else masks[start].to_array()
        canvas = self._canvas(query, form)
        names_frame = frame is None and len(query.media[0]) > 1 and start != key_frame
        return self.prompt.write(
            [
                canvas.to_canvas(item._replace(phrase=query.text))
                for item in with_negatives(items, target)
            ],
            frame=start if names_frame else None,
        )


def _segmenter_settings(part: Segmenter) -> dict[str, object]:
    """Return the segmenter's settings for the record, with the cues that it gets."""
    if not isinstance(part, Cues):
        return settings(part)
    cues = {"box": part.box, "central": part.central, "negative": part.negative}
    return {**settings(part.segmenter), **cues}


@with_options(Composition, Sampler, without=["keyframe"])
def videoseg_r1(
    parts: Composition,
    search: Sampler,
    *,
    sampler: Spec | Chat | None = None,
    canvas: Carried[int] = CANVAS[0],
    prompt: Carried[Wording] = "paper",
    context: Carried[int] = CONTEXT[0],
    temperature: Annotated[float, Only(key_segment=True) | Only(target_frame=True)] = 0.7,
    sampler_frames: Carried[int] = 16,
    references: Carried[Strategy] = "adaptive",
    reference_frames: Carried[int] = 12,
    key_frames: Carried[int] = 8,
    beside: Carried[Beside] = "images",
    box: bool = True,
    central: bool = True,
    negative: bool = True,
    think: Carried[bool] = True,
) -> VideoSegR1:
    """VideoSeg-R1: searches the frame, reasons, segments it, and propagates both ways.

    The paper's propagator is `xmem(repo=…,weights=…)`, of a checkout: it must be given.

    Args:
        segmenter: Makes a mask from box, positive and negative point; None: the paper's,
            `sam2(checkpoint=facebook/sam2-hiera-large)`.
        sampler: Backend of the network that votes on frames; None: the reasoner's backend. A
            query's reasoning then does not wait for the votes of other queries. The paper's
            sampler is untrained: `transformers(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct)`.
        canvas: Side of the square, in pixels, that the target frame is squashed to; the paper's
            is 840, that of `pocket` 168.
        prompt: `paper`: the paper's prompt. `short`: little but the question, for networks such as
            `pocket` that ignore other words and learn the grammar in training.
        context: Side of the square, in pixels, that all other frames are squashed to.
        temperature: Temperature of votes, for a backend that samples.
        sampler_frames: Number of frames of a segment that the sampler sees.
        references: Strategy for choosing the reference frames: `adaptive`, `global` or `local`
            (Table B1).
        reference_frames: Number of reference frames (Table B1).
        key_frames: Largest number of frames of the key segment that the reasoner sees.
        beside: Form of reference frames and key frames: `images`, or two `clips`, which cost half
            the tokens because Qwen's encoder merges frames in pairs, even distant ones.
        box: Give the boxes to the segmenter (Table 6).
        central: Give the positive points to the segmenter.
        negative: Give the negative points to the segmenter.
        think: Ask for reasoning (Table 4).
        frames: Number of video frames for questions in words, or a rule; see docs/data.md.
        seed: Seed of random frames, and of a backend that samples if its SPEC names none.
    """
    at_least("videoseg_r1", 1, canvas=canvas, context=context, sampler_frames=sampler_frames)
    at_least("videoseg_r1", 0, reference_frames=reference_frames, key_frames=key_frames)
    check_settings(temperature=temperature, top_p=1.0)
    built = parts.build(method="videoseg_r1")
    if not (box and central and negative):
        built["segmenter"] = Cues(
            segmenter=built["segmenter"], box=box, central=central, negative=negative
        )
    return VideoSegR1(
        name="videoseg_r1",
        prompt=Prompt(resize=(canvas, canvas), think=think, wording=prompt),
        words=Questions(),
        voters=built["chat"]
        if sampler is None
        else parts.chat(_with_temperature(sampler, temperature)),
        sampler=search,
        showing=FrameDisplay(
            context=(context, context),
            sampler_frames=sampler_frames,
            strategy=references,
            reference_frames=reference_frames,
            key_frames=key_frames,
            beside=beside,
            temperature=temperature if sampler is None else None,
        ),
        **built,
    )


def _with_temperature(backend: Spec | Chat, temperature: float) -> Spec | Chat:
    """Return the voters' backend with a temperature, unless its SPEC names one or it has none."""
    if isinstance(backend, Spec) and plugins.accepts("backends", backend.name, "temperature"):
        return backend.with_defaults(temperature=temperature)
    return backend
