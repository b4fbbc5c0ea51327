"""VideoSeg-R1: search for the frame, reason about it, segment and propagate.

    query ─▶ Sampler ─▶ target frame, key segment ─▶ reasoner ─▶ segmenter ─▶ propagator ─▶ masks

An image is a video of one frame, for which there is nothing to look for.
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
from harness.models.videoseg_r1.sampler import KeySegment, Sampler
from harness.models.visionreasoner.grammar import CANVAS
from harness.options import Carried, Only, with_options
from harness.responses import storable
from harness.segmentation import Propagator, Segmenter, settings
from harness.spec import Spec
from harness.types import Answer, AnswerForm, Call, Prediction, Query

CONTEXT = (280, 280)
"""(width, height) of frames beside the target: 100 tokens of Qwen2.5-VL instead of 900."""


@dataclass(frozen=True, kw_only=True)
class VideoSegR1(PromptedModel):
    """A reasoner after a sampler, which chooses the frame of a video for the masks.

    Questions in words, and questions about an image, are prompted as in any composition. For places
    in a video, the searches of all queries of a batch go on side by side. A prediction's responses
    are those of the sampler, then one a form of answer, which begins with the frame that was
    marked; `read` needs the last ones only.
    """

    voters: Chat
    sampler: Sampler
    showing: FrameDisplay

    def describe(self) -> Mapping[str, object]:
        """Plain data for the record: every setting, and the prompts as they are sent."""
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
        return None if None in seconds else sum(filter(None, seconds))

    def halt(self) -> None:
        """Cancel the requests to the VLMs."""
        super().halt()
        self.voters.halt()

    def prepare_next(self, queries: Sequence[Query]) -> None:
        """Start to prepare the first frames: those of the searches' first turns, if they have any.

        Otherwise it is known where they end, and so what the reasoner is shown.
        """
        started = [self._first_turn(query) if is_looked_for(query) else None for query in queries]
        votes = [
            request
            for turn in started
            if not isinstance(turn, KeySegment | None)
            for request in turn
        ]
        if votes and not self._is_one_talk:
            self.voters.prepare_next(votes, go_on=isinstance(self.voters, ConversingChat))
            return
        first = [
            self.reasoner_requests(query, turn) if isinstance(turn, KeySegment | None) else turn
            for query, turn in zip(queries, started, strict=True)
        ]
        talk = self._is_one_talk and any(map(is_looked_for, queries))
        self.chat.prepare_next([request for several in first for request in several], go_on=talk)

    def generate(self, queries: Sequence[Query]) -> list[ChatResult]:
        """Look for the frames, and ask the reasoner.

        Where one network does both, and lets each conversation go on by itself, each query's
        reasoner begins when its own search has ended; otherwise all reason in one call.
        """
        if not any(map(is_looked_for, queries)):
            return super().generate(queries)
        if self._is_one_talk:
            return converse(self.chat, [self.conversation(query) for query in queries])
        results = search_frames(
            queries, sampler=self.sampler, showing=self.showing, voters=self.voters
        )
        requests = [
            self.reasoner_requests(query, result.place if result else None)
            for query, result in zip(queries, results, strict=True)
        ]
        output = iter(self.chat.generate([request for several in requests for request in several]))
        return [
            with_frame_names(query, several, tuple(next(output) for _ in several), result)
            for query, several, result in zip(queries, requests, results, strict=True)
        ]

    @property
    def by_sample(self) -> bool:
        """True if queries are answered one by one: separate voters vote for all of them at once."""
        return self._is_one_talk and super().by_sample

    def _goes_on(self, queries: Sequence[Query]) -> bool:
        return any(map(is_looked_for, queries))

    @property
    def _is_one_talk(self) -> bool:
        """True if each query's reasoner starts as soon as its own search has ended.

        In separate turns it would share calls with votes, and `altered` would swap the two.
        """
        return self.voters is self.chat and isinstance(self.chat, ConversingChat)

    @property
    def _parts(self) -> tuple[Chat | Segmenter | Propagator, ...]:
        return (*super()._parts, self.voters)

    def conversation(self, query: Query) -> Conversation[ChatResult]:
        """The search, if there is one, and then the reasoner's requests."""
        if not is_looked_for(query):
            return (yield from super().conversation(query))
        result = yield from searched(query, self.sampler, self.showing)
        requests = self.reasoner_requests(query, result.place)
        responses = yield requests
        return with_frame_names(query, requests, tuple(responses), result)

    def looks_at(self, query: Query) -> tuple[tuple[int, ...], ...]:
        """Return the frames of the first requests; later ones depend on the search's first turn.

        Raises:
            UsageError: this model does not give such an answer.
        """
        if not is_looked_for(query):
            return super().looks_at(query)
        turn = self._first_turn(query)
        return frames_shown(
            query, self.reasoner_requests(query, turn) if isinstance(turn, KeySegment) else turn
        )

    def reasoner_requests(
        self, query: Query, place: KeySegment | None, beside: Sequence[int] | None = None
    ) -> tuple[ChatRequest, ...]:
        """The reasoner's requests, one a form, for a place of a video (None: for an image).

        `beside` are the reference frames; None: by the strategy.
        """
        requests = self.requests(query)
        if place is None:
            return requests
        return tuple(
            self.showing.reasoner_request(request, place, beside) if form in LOCATED else request
            for form, request in zip(query.forms, requests, strict=True)
        )

    def training_requests(
        self, query: Query, answer: Answer, *, seed: int
    ) -> tuple[ChatRequest, ...]:
        """Return the requests of a training, one for each form of answer: `generate` without the
        sampler.

        Raises:
            UsageError: this model does not give such an answer.
            ParseError: no frame shows a target.
        """
        return self.drawn_requests(query, answer, Drawing(seed=seed, delta=self.sampler.delta))

    def drawn_requests(
        self, query: Query, answer: Answer, drawing: Drawing
    ) -> tuple[ChatRequest, ...]:
        """The reasoner's requests for a place that is drawn; as evaluation's for an image."""
        if not is_looked_for(query):
            return self.requests(query)
        place, beside = drawing.draw(query, answer)
        return self.reasoner_requests(query, place, spread(beside, self.showing.reference_frames))

    def training_responses(
        self, query: Query, answer: Answer, requests: Sequence[ChatRequest]
    ) -> tuple[str, ...]:
        """Return the responses for `answer` in the frames that requests of a training show first.

        Unlike those of `write`, they name no frame: who asks has chosen it.
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
        """Read responses: the last ones, one a form of the query; those before are the
        sampler's.
        """
        votes = max(0, len(responses) - len(query.forms))
        reading = super().reading(query, responses[votes:], calls)
        before = tuple(storable(response) for response in responses[:votes])
        tokens = sum(map(self.voters.count_tokens, before))

        def read_answer() -> Prediction:
            output = reading()
            whole = output.usage.completion_tokens + tokens
            return replace(
                output,
                responses=(*before, *output.responses),
                usage=replace(output.usage, completion_tokens=whole),
            )

        return read_answer

    def _first_turn(self, query: Query) -> Sequence[ChatRequest] | KeySegment:
        return first_turn(query, sampler=self.sampler, showing=self.showing)

    def _located_text(
        self, query: Query, form: AnswerForm, answer: Answer, *, frame: int | None = None
    ) -> str:
        """Return the text of a response as any composition, with negative points; with `frame`, the
        frame is not named.
        """
        rule = self._key_frame(query.media[0])
        start = key_frame_of(answer, rule) if frame is None else frame
        items = [] if answer.no_target else objects_of(form, answer, start, query.size)
        masks = answer.masks
        target = boxes_filled(items, query.size) if masks is None else masks[start].to_array()
        canvas = self._canvas(query, form)
        named = frame is None and len(query.media[0]) > 1 and start != rule
        return self.prompt.write(
            [
                canvas.to_canvas(item._replace(phrase=query.text))
                for item in with_negatives(items, target)
            ],
            frame=start if named else None,
        )


def _segmenter_settings(part: Segmenter) -> dict[str, object]:
    if not isinstance(part, Cues):
        return settings(part)
    shown = {"box": part.box, "central": part.central, "negative": part.negative}
    return {**settings(part.segmenter), **shown}


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
        sampler: What calls the network that votes on frames; None: the reasoner's, whose requests
            then wait for no other query's votes. The paper's is untrained:
            `transformers(checkpoint=Qwen/Qwen2.5-VL-7B-Instruct)`.
        canvas: Side of the square, in pixels, that the target frame is squashed to; the paper's
            is 840, that of `pocket` 168.
        prompt: `paper`; `short`: little but the question, for networks such as `pocket` that never
            read the words around it, and learn the grammar in training.
        context: The side of the square for all other frames.
        temperature: Of votes, for a backend that samples.
        sampler_frames: Frames of a segment that the sampler sees.
        references: Where reference frames are from: `adaptive`, `global` or `local` (Table B1).
        reference_frames: How many (Table B1).
        key_frames: Frames of the key segment that the reasoner sees.
        beside: Reference and key frames are `images`, or two `clips`, which cost half the tokens
            since Qwen's encoder joins each two frames, also such as are far from each other.
        box: Show the segmenter the boxes (Table 6).
        central: Show it the positive points.
        negative: Show it the negative points.
        think: Ask for reasoning (Table 4).
        frames: Frames of a video for questions in words, or a rule; see docs/data.md.
        seed: Of a backend that samples, unless the backend's SPEC names one, and of random frames.
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
    """A backend for votes; a temperature that its SPEC names itself wins."""
    if isinstance(backend, Spec) and plugins.accepts("backends", backend.name, "temperature"):
        return backend.with_defaults(temperature=temperature)
    return backend
